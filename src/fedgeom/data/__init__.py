"""Reading sites' files, splitting one set into sites, and the built-in sets. No models here."""
