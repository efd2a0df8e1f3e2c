// The library that mixed.py has made of native/raft and shim.c.
fn main() {
    println!(
        "cargo:rustc-link-search=native={}",
        std::env::var("LEAFD_RAFT_LIBRARY").unwrap()
    );
    println!("cargo:rustc-link-lib=static=raft");
    println!("cargo:rerun-if-env-changed=LEAFD_RAFT_LIBRARY");
}
