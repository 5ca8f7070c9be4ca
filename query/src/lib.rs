//! trackiops-query
