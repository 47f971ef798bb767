//! Operators that the reference interpreter lacks, evaluated by the Python worker.
//!
//! In: one call with its arguments. Out: its results. Tensors travel by file in a folder that is gone
//! with this value. Under the judge's precision the tensors are doubles already.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use fs_err as fs;
use serde_json::{Value, json};

use crate::graph::{Literal, MemoryFormat};
use crate::interpreter::{Array, Delegate, Item, Precision};
use crate::tensor::Tensor;
use crate::torch::WorkerPool;
use crate::torch::protocol::{OperatorArgument, TensorFile};
use crate::workbench::EAGER_LIMIT;

/// The worker as evaluator of single operators.
pub(crate) struct TorchOperators<'a> {
    workers: &'a WorkerPool,
    folder: tempfile::TempDir,
    calls: AtomicU64,
}

impl<'a> TorchOperators<'a> {
    /// Makes the folder for tensors below `parent`.
    ///
    /// # Errors
    /// When it cannot be made.
    pub(crate) fn new(workers: &'a WorkerPool, parent: &Path) -> io::Result<Self> {
        let folder = tempfile::Builder::new().prefix(".operators-").tempdir_in(parent)?;
        Ok(Self { workers, folder, calls: AtomicU64::new(0) })
    }
}

impl Delegate for TorchOperators<'_> {
    fn evaluate(&self, op: &str, args: &[(String, Item)], _precision: Precision) -> Result<Vec<Tensor>, String> {
        let number = self.calls.fetch_add(1, Ordering::Relaxed);
        let folder = self.folder.path().join(number.to_string());
        fs::create_dir(&folder).map_err(|error| error.to_string())?;
        let mut tensors = 0_u32;
        let arguments = args
            .iter()
            .map(|(name, item)| argument(name, item, &folder, &mut tensors))
            .collect::<Result<Vec<_>, _>>()?;
        let outputs = self
            .workers
            .with(|worker| worker.call_operator(op, &arguments, &folder, EAGER_LIMIT))
            .map_err(|error| error.to_string())?;
        let outputs = outputs.iter().map(Tensor::read).collect::<Result<_, _>>().map_err(|error| error.to_string());
        // The folder of all calls goes later; tensors may be large, so each goes now.
        let _ = fs::remove_dir_all(&folder);
        outputs
    }
}

fn argument(name: &str, item: &Item, folder: &Path, tensors: &mut u32) -> Result<OperatorArgument, String> {
    let mut store = |array: &Array| -> Result<TensorFile, String> {
        *tensors += 1;
        array.to_tensor().write(folder, &format!("argument_{tensors}")).map_err(|error| error.to_string())
    };
    let (kind, value) = match item {
        Item::Tensor(array) => ("tensor", json!(store(array)?)),
        Item::Tensors(arrays) => ("tensors", json!(arrays.iter().map(store).collect::<Result<Vec<_>, _>>()?)),
        Item::OptionalTensors(arrays) => (
            "tensors",
            json!(
                arrays.iter().map(|array| array.as_ref().map(&mut store).transpose()).collect::<Result<Vec<_>, _>>()?
            ),
        ),
        Item::Int(number) => ("plain", json!(number)),
        Item::Ints(numbers) => ("plain", json!(numbers)),
        Item::Literal(literal) => literal_argument(literal)?,
    };
    Ok(OperatorArgument { name: name.to_owned(), kind: kind.to_owned(), value })
}

fn literal_argument(literal: &Literal) -> Result<(&'static str, Value), String> {
    // JSON has no infinities; Python reads them from their names.
    let float = |number: f64| if number.is_finite() { json!(number) } else { json!(number.to_string()) };
    Ok(match literal {
        Literal::None | Literal::Device(_) | Literal::Layout(_) => ("plain", Value::Null),
        Literal::Int(number) => ("plain", json!(number)),
        Literal::Ints(numbers) => ("plain", json!(numbers)),
        Literal::Float(number) => ("float", float(*number)),
        Literal::Floats(numbers) => ("floats", json!(numbers.iter().copied().map(float).collect::<Vec<_>>())),
        Literal::Bool(value) => ("plain", json!(value)),
        Literal::Bools(values) => ("plain", json!(values)),
        Literal::Text(text) => ("plain", json!(text)),
        Literal::Texts(texts) => ("plain", json!(texts)),
        Literal::ScalarType(dtype) => ("dtype", json!(dtype.torch_name())),
        Literal::MemoryFormat(format) => (
            "memory_format",
            json!(match format {
                MemoryFormat::Contiguous => "contiguous",
                MemoryFormat::Preserve => "preserve",
                MemoryFormat::ChannelsLast => "channels_last",
                MemoryFormat::ChannelsLast3d => "channels_last_3d",
                MemoryFormat::Other(code) => return Err(format!("memory format {code} is unknown")),
            }),
        ),
        Literal::Other(json) => return Err(format!("the argument {json} cannot be handed to torch")),
    })
}
