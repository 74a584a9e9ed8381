"""The local web page over a folder: files, studies, runs, and a site's or coordinator's work. No training here."""
