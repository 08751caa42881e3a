//! What the command line of every Creel program shares.
