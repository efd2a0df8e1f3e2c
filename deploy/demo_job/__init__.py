"""The demo: one real job end to end, with faults, told on the screen and checked to the last row."""
