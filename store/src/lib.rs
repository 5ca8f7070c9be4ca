//! trackiops-store
