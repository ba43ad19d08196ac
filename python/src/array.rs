//! numpy arrays as the memory of an operation.

use std::ptr::NonNull;

use agg_worker::{Buffer, Element};
use numpy::npyffi::flags::{NPY_ARRAY_ALIGNED, NPY_ARRAY_C_CONTIGUOUS, NPY_ARRAY_WRITEABLE};
use numpy::{PyArrayDescr, PyArrayDescrMethods, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;

/// What an operation works on, where it is.
pub(crate) enum Array {
    F32(Lent<f32>),
    I32(Lent<i32>),
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
    /// Lends an array. The error says what can be lent.
    pub(crate) fn lend(operation: &str, object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let refuse = |what: &str| {
            PyTypeError::new_err(format!(
                "{operation} works in place on C-contiguous, writable numpy arrays of float32 or int32, not on {what}"
            ))
        };
        let array = object
            .cast::<PyUntypedArray>()
            .map_err(|_| refuse(&format!("a {}", object.get_type())))?;
        let dtype = array.dtype();
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
        if is::<f32>(&dtype) {
            Ok(Self::F32(Lent::of(array)))
        } else if is::<i32>(&dtype) {
            Ok(Self::I32(Lent::of(array)))
        } else {
            Err(refuse(&format!("one of {dtype}: convert it with astype")))
        }
    }
}

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
