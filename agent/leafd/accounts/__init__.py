"""The accounts of a server and what each may use, compiled flat: names to the small numbers the plane works with."""
