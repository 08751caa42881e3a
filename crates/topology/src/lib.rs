//! The machine and the budget: what is there, what may be used, and where workers sit.
