"""Writers: what is known of a run, beside its folder's own files, for programs that others look at runs with."""
