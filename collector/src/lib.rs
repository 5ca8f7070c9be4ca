//! trackiops-collector
