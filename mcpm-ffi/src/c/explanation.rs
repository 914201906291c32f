//! Exports explanations of denials to C.

use std::{
    ffi::{CString, c_char},
    ptr,
};

use mcpm::{Environment, Explanation};

use super::{
    error::{CError, Status},
    handle::{self, Out, Owned, c_text},
    proxy::CProxy,
};

/// The explanation of a denial. Its strings are valid as long as it exists.
#[derive(Debug)]
pub struct CExplanation {
    reason: CString,
    layer: CString,
    meaning: CString,
    usual_fix: CString,
    refused: Option<CDenial>,
}

/// The denial that was explained.
#[derive(Debug)]
struct CDenial {
    time: CString,
    server: CString,
    rule: Option<CString>,
    inputs: Vec<(CString, CString)>,
    fix: CString,
}

impl From<Explanation> for CExplanation {
    fn from(explanation: Explanation) -> Self {
        let denial = explanation.refusal.map(|denial| CDenial {
            time: c_text(&denial.time),
            server: c_text(&denial.server),
            rule: denial.rule.as_deref().map(c_text),
            inputs: denial.inputs.iter().map(|(name, value)| (c_text(name), c_text(value))).collect(),
            fix: c_text(&denial.fix),
        });
        Self {
            reason: c_text(&explanation.reason),
            layer: c_text(&explanation.layer),
            meaning: c_text(&explanation.meaning),
            usual_fix: c_text(&explanation.usual_fix),
            refused: denial,
        }
    }
}

/// Explains a reason, such as `tools.not_listed`, or a recorded denial of a workload or of `mcpm proxy`, by its
/// id.
///
/// The environment variables of the process determine where the records are, as for the command line. On success,
/// `explanation` is set; free it with `mcpm_explanation_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explain(
    id: *const c_char,
    explanation: *mut *mut Owned<CExplanation>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let (id, out) = (handle::text(id, "id")?, Out::new(explanation, "explanation")?);
            out.put(handle::into_raw(mcpm::explain(id, &Environment::from_process())?.into()));
            Ok(())
        })
    }
}

/// Explains a reason, or a recent denial of a proxy, by its id.
///
/// On success, `explanation` is set; free it with `mcpm_explanation_free`.
#[must_use]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_explain(
    proxy: *const CProxy,
    id: *const c_char,
    explanation: *mut *mut Owned<CExplanation>,
    error: *mut *mut Owned<CError>,
) -> Status {
    // SAFETY: the conventions in the header.
    unsafe {
        handle::guard(error, || {
            let proxy = handle::required_ref(proxy, "proxy")?;
            let (id, out) = (handle::text(id, "id")?, Out::new(explanation, "explanation")?);
            out.put(handle::into_raw(proxy.explain(id)?.into()));
            Ok(())
        })
    }
}

/// Returns the id of the reason. Returns null for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_reason(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { handle::as_ref(explanation) }.map(|explanation| &explanation.reason))
}

/// Returns the layer that denies for this reason. Returns null for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_layer(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { handle::as_ref(explanation) }.map(|explanation| &explanation.layer))
}

/// Returns what the reason means. Returns null for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_meaning(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { handle::as_ref(explanation) }.map(|explanation| &explanation.meaning))
}

/// Returns what usually helps. Returns null for a null pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_usual_fix(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { handle::as_ref(explanation) }.map(|explanation| &explanation.usual_fix))
}

/// Returns the smallest change that would have allowed the request; null if the explained id is not that of a denial.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_fix(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { refused(explanation) }.map(|refused| &refused.fix))
}

/// Returns the rule that applied; null if the layer has only one rule, or if the explained id is not that of a denial.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_rule(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { refused(explanation) }.and_then(|refused| refused.rule.as_ref()))
}

/// Returns the server that the request was for; null if the explained id is not that of a denial.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_server(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { refused(explanation) }.map(|refused| &refused.server))
}

/// Returns when the request was denied (RFC 3339); null if the explained id is not that of a denial.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_time(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { refused(explanation) }.map(|refused| &refused.time))
}

/// Returns an input of the decision, redacted, by its index from 0.
///
/// Returns false and writes nothing if the index is out of range. `name` and `value` are valid as long as the
/// explanation.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_input(
    explanation: *const CExplanation,
    index: usize,
    name: *mut *const c_char,
    value: *mut *const c_char,
) -> bool {
    // SAFETY: the conventions in the header.
    let input = unsafe { refused(explanation) }.and_then(|refused| refused.inputs.get(index));
    // SAFETY: the conventions in the header.
    let outs = unsafe { (Out::new(name, "name"), Out::new(value, "value")) };
    let (Some(input), (Ok(name), Ok(value))) = (input, outs) else { return false };
    name.put(input.0.as_ptr());
    value.put(input.1.as_ptr());
    true
}

/// Frees an explanation; null is allowed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_free(explanation: *mut Owned<CExplanation>) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free(explanation) }
}

/// The denial of an explanation.
///
/// # Safety
/// As for [`handle::as_ref`].
unsafe fn refused<'a>(explanation: *const CExplanation) -> Option<&'a CDenial> {
    // SAFETY: guaranteed by the caller.
    unsafe { handle::as_ref(explanation) }.and_then(|explanation| explanation.refused.as_ref())
}

fn text_or_null(text: Option<&CString>) -> *const c_char {
    text.map_or(ptr::null(), |text| text.as_ptr())
}
