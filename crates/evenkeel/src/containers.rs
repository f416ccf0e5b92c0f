//! Verbs for those who run containers: probes without a shell, upgrades on Kubernetes.

pub(crate) mod kube;
pub(crate) mod ready;
