"""What chapters, claims and experiments compute of models, and the package does not need."""
