"""Making smaller model files: which type each tensor gets, and writing them so."""
