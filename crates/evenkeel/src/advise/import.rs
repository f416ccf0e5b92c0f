//! `evenkeel advise import`: a catalogue of shapes from files of others.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use advise::import::{ImportError, ImportRequest, SourceFile, import};

use crate::failure::{Failure, say};
use crate::terminal::output::print;

/// Exit statuses of `import`.
pub(crate) const STATUSES: [(&str, &str); 4] = [
    ("0", "The catalogue was written; what was left out, and where sources differ, is on standard error."),
    ("64", "The command line is wrong: no file with shapes, or a family that no file has."),
    ("71", "The system refused: a file cannot be read or written."),
    ("1", "Anything else: a file says something else than expected, with the line."),
];

/// Make a catalogue of shapes from files of others that were fetched before
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Arguments {
    /// Instance types of AWS, from the Python package moto: instance_types.json.gz, or the JSON in it
    #[arg(long, value_name = "FILE", requires = "moto_version")]
    moto: Option<PathBuf>,
    /// The version of moto, which becomes part of the catalogue as the source of these figures
    #[arg(long, value_name = "VERSION", requires = "moto")]
    moto_version: Option<String>,
    /// Prices of AWS, from the Go module karpenter-provider-aws: zz_generated.pricing_aws.go
    #[arg(long, value_name = "FILE", requires = "karpenter_version")]
    karpenter_prices: Option<PathBuf>,
    /// Bandwidths of AWS, from the same module: zz_generated.bandwidth.go
    #[arg(long, value_name = "FILE", requires = "karpenter_version")]
    karpenter_bandwidth: Option<PathBuf>,
    /// The version of karpenter-provider-aws
    #[arg(long, value_name = "VERSION")]
    karpenter_version: Option<String>,
    /// The region of AWS whose prices are taken
    #[arg(long, value_name = "REGION", default_value = "us-east-1")]
    region: String,
    /// Sizes of Azure, from Kubernetes' cluster-autoscaler: azure_instance_types.go
    #[arg(long, value_name = "FILE", requires = "autoscaler_version")]
    azure: Option<PathBuf>,
    /// Prices of Google Compute Engine, from the same module: gce_price_info.go
    #[arg(long, value_name = "FILE", requires_all = ["autoscaler_version", "gce_region", "gce_date"])]
    gce_prices: Option<PathBuf>,
    /// The version or commit of cluster-autoscaler
    #[arg(long, value_name = "VERSION")]
    autoscaler_version: Option<String>,
    /// The region of --gce-prices: the file does not say it
    #[arg(long, value_name = "REGION", requires = "gce_prices")]
    gce_region: Option<String>,
    /// The day of --gce-prices, as 2026-06-23: the file does not say it
    #[arg(long, value_name = "DATE", requires = "gce_prices")]
    gce_date: Option<String>,
    /// Families to take, each with all of its sizes or some: r5,r6i=large+xlarge,n2-highmem [all]
    #[arg(long, value_name = "LIST", default_value = "", hide_default_value = true)]
    families: String,
    /// A catalogue to put over the result: figures of vendors' pages, or measured ones; repeatable
    #[arg(long, value_name = "FILE")]
    over: Vec<PathBuf>,
    /// Write the catalogue to this file [standard output]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

pub(super) fn run(arguments: &Arguments) -> Result<ExitCode, Failure> {
    let imported = import(&request(arguments)).map_err(refused)?;
    imported.notes.iter().for_each(|note| say(format_args!("evenkeel: advise: {note}")));
    let text = imported.catalogue.to_toml();
    match &arguments.out {
        None => print(text.as_bytes())?,
        Some(path) => write(path, &text)?,
    }
    Ok(ExitCode::SUCCESS)
}

fn request(arguments: &Arguments) -> ImportRequest {
    // clap has checked that each file comes with its version.
    let file = |path: &Option<PathBuf>, version: &Option<String>| {
        path.clone().map(|path| SourceFile { path, version: version.clone().unwrap_or_default() })
    };
    ImportRequest {
        moto: file(&arguments.moto, &arguments.moto_version),
        karpenter_prices: file(&arguments.karpenter_prices, &arguments.karpenter_version),
        karpenter_bandwidth: file(&arguments.karpenter_bandwidth, &arguments.karpenter_version),
        azure: file(&arguments.azure, &arguments.autoscaler_version),
        gce_prices: file(&arguments.gce_prices, &arguments.autoscaler_version),
        region: arguments.region.clone(),
        gce_region: arguments.gce_region.clone().unwrap_or_default(),
        gce_date: arguments.gce_date.clone().unwrap_or_default(),
        families: arguments.families.clone(),
        over: arguments.over.clone(),
    }
}

fn refused(error: ImportError) -> Failure {
    match error {
        ImportError::NoShapes | ImportError::Families(_) => Failure::usage(error, None),
        error => Failure::other(error),
    }
}

fn write(path: &Path, text: &str) -> Result<(), Failure> {
    os::file::replace(path, text).map_err(|error| Failure::system(format!("write {}", path.display()), error))
}
