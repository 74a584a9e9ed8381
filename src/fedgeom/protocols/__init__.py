"""Multi-step building blocks used by several methods: join, secure sum, secure maximum."""
