//! Converts values for C to records of named values, for example an event or the status of a workload.

use std::{
    ffi::{CString, c_char, c_void},
    ptr,
};

use serde::Serialize;
use serde_json::Value;

use super::{
    error::CError,
    handle::{self, Owned},
};

/// Named values: an event, the status of a workload, or the description of a recorded workload.
#[derive(Debug)]
pub struct CRecord {
    fields: Vec<(String, CString)>,
    json: CString,
}

impl CRecord {
    pub(super) fn new(value: &impl Serialize) -> Self {
        // The types of mcpm contain only values that JSON can represent.
        let value = serde_json::to_value(value).unwrap_or_default();
        let json = handle::c_text(&value.to_string());
        let Value::Object(object) = value else { return Self { fields: Vec::new(), json } };
        let fields = object.into_iter().filter_map(|(name, value)| {
            let text = match value {
                Value::Null => return None,
                Value::String(text) => text,
                other => other.to_string(),
            };
            Some((name, handle::c_text(&text)))
        });
        Self { fields: fields.collect(), json }
    }

    pub(super) fn into_raw(value: &impl Serialize) -> *mut Self {
        handle::into_raw(Self::new(value))
    }
}

/// Receives a record, which must be freed with `mcpm_record_free`. If the operation has failed, `record` is null, and
/// `error` must be freed.
///
/// mcpm calls it once, on one of its threads. The callback may block, and may start other operations, but must not call
/// functions of mcpm that block: in a callback, they return `MCPM_STATUS_NOT_HERE`.
pub type COnRecord = Option<
    unsafe extern "C" fn(user_data: *mut c_void, record: *mut Owned<CRecord>, error: *mut Owned<CError>),
>;

/// Returns a value by its name, in text form: numbers in decimal, objects and lists as JSON. It is valid as long as the
/// record. Returns null if the record has no such value, and for null pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_record_get(record: *const CRecord, name: *const c_char) -> *const c_char {
    // SAFETY: the conventions in the header.
    let (record, name) = unsafe { (handle::as_ref(record), handle::text(name, "name")) };
    let (Some(record), Ok(name)) = (record, name) else { return ptr::null() };
    let field = record.fields.iter().find(|(known, _)| known == name);
    field.map_or(ptr::null(), |(_, value)| value.as_ptr())
}

/// Returns all values as a JSON object, valid as long as the record. Returns null for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_record_json(record: *const CRecord) -> *const c_char {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(record) }.map_or(ptr::null(), |record| record.json.as_ptr())
}

/// Frees a record that is marked `MCPM_OWNED`; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_record_free(record: *mut Owned<CRecord>) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free(record) }
}

/// A list of records.
#[derive(Debug)]
pub struct CRecordList(Vec<CRecord>);

impl CRecordList {
    pub(super) fn into_raw<T: Serialize>(values: impl IntoIterator<Item = T>) -> *mut Self {
        handle::into_raw(Self(values.into_iter().map(|value| CRecord::new(&value)).collect()))
    }
}

/// Receives a list of records, which must be freed with `mcpm_record_list_free`. If the operation has failed, `list` is
/// null, and `error` must be freed. mcpm calls it in the same way as `mcpm_on_record`.
pub type COnRecordList = Option<
    unsafe extern "C" fn(user_data: *mut c_void, list: *mut Owned<CRecordList>, error: *mut Owned<CError>),
>;

/// Returns the number of records; 0 for null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_record_list_length(list: *const CRecordList) -> usize {
    // SAFETY: the conventions in the header.
    unsafe { handle::as_ref(list) }.map_or(0, |list| list.0.len())
}

/// Returns a record by its index from 0. The record is valid as long as the list, and must not be freed. Returns null
/// if the index is out of range, and for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_record_list_get(list: *const CRecordList, index: usize) -> *const CRecord {
    // SAFETY: the conventions in the header.
    let record = unsafe { handle::as_ref(list) }.and_then(|list| list.0.get(index));
    record.map_or(ptr::null(), ptr::from_ref)
}

/// Frees a list and its records; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_record_list_free(list: *mut Owned<CRecordList>) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free(list) }
}
