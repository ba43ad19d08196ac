//! numpy arrays as the memory of an operation.

use std::ptr::NonNull;

use agg_worker::{Buffer, Element};
use half::{bf16, f16};
use numpy::npyffi::flags::{NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// What an operation works on, where it is.
pub(crate) enum Array {
    F32(Lent<f32>),
    I32(Lent<i32>),
    F16(Lent<f16>),
    Bf16(Lent<bf16>),
}

/// An array that is lent to an operation: it lives until the operation has ended.
pub(crate) struct Lent<E> {
    first: NonNull<E>,
    len: usize,
    _array: Py<PyUntypedArray>,
}

// SAFETY: it is the only way to its elements but for the array itself, whose owner is told not to use it meanwhile; a
// reference to a Python object may be held and dropped by any thread.
unsafe impl<E: Send> Send for Lent<E> {}

impl<E: Element> Buffer for Lent<E> {
    type Element = E;

    fn elements(&mut self) -> &mut [E] {
        // SAFETY: `Lent::of` saw an aligned, writable, contiguous array of `len` elements of this type. It lives as long as
        // `_array` refers to it, and numpy does not resize an array that somebody else refers to.
        unsafe { std::slice::from_raw_parts_mut(self.first.as_ptr(), self.len) }
    }
}

impl Array {
    /// Lends an array. The error says what can be lent. `dtype` is for types that numpy does not have.
    pub(crate) fn lend(operation: &str, object: &Bound<'_, PyAny>, dtype: Option<&str>) -> PyResult<Self> {
        let refuse = |what: &str| {
            PyTypeError::new_err(format!(
                "{operation} works in place on C-contiguous, writable numpy arrays of float32, int32, float16 or bfloat16, not on {what}"
            ))
        };
        let array = object
            .cast::<PyUntypedArray>()
            .map_err(|_| refuse(&format!("a {}", object.get_type())))?;
        let given = array.dtype();
        // SAFETY: a `PyUntypedArray` is a numpy array.
        let flags = unsafe { (*array.as_array_ptr()).fields.flags };
        for (flag, what) in [
            (
                NPY_ARRAY_C_CONTIGUOUS,
                "one that is not C-contiguous: numpy.ascontiguousarray makes a copy that is",
            ),
            (NPY_ARRAY_WRITEABLE, "one that is read-only"),
            (NPY_ARRAY_ALIGNED, "one that is not aligned"),
        ] {
            if flags & flag == 0 {
                return Err(refuse(what));
            }
        }
        match dtype {
            None if is::<f32>(&given) => Ok(Self::F32(Lent::of(array))),
            None if is::<i32>(&given) => Ok(Self::I32(Lent::of(array))),
            None if is::<f16>(&given) => Ok(Self::F16(Lent::of(array))),
            // The type that the package ml_dtypes adds to numpy.
            None if given.to_string() == BFLOAT16 => Ok(Self::Bf16(Lent::of(array))),
            None => Err(refuse(&format!("one of {given}: convert it with astype"))),
            Some(BFLOAT16) if is::<u16>(&given) => Ok(Self::Bf16(Lent::of(array))),
            Some(dtype) => Err(PyTypeError::new_err(format!(
                "dtype = '{dtype}' of an array of {given}: only 'bfloat16' of uint16 can be given, numpy has the others itself"
            ))),
        }
    }
}

/// numpy has no such type.
const BFLOAT16: &str = "bfloat16";

fn is<E: numpy::Element>(dtype: &Bound<'_, PyArrayDescr>) -> bool {
    dtype.is_equiv_to(&numpy::dtype::<E>(dtype.py()))
}

impl<E> Lent<E> {
    /// Elements.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    fn of(array: &Bound<'_, PyUntypedArray>) -> Self {
        // SAFETY: a `PyUntypedArray` is a numpy array.
        let first = unsafe { (*array.as_array_ptr()).fields.data };
        Self {
            // Only an array without elements may have no memory.
            first: NonNull::new(first.cast()).unwrap_or(NonNull::dangling()),
            len: array.len(),
            _array: array.clone().unbind(),
        }
    }
}
