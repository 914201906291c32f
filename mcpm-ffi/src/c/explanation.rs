//! Why something was refused.

use std::{
    ffi::{CString, c_char},
    ptr,
};

use mcpm::{Environment, Explanation};

use super::{
    error::{CError, Status},
    handle::{self, Out, c_text},
    proxy::CProxy,
};

/// Why something was refused. Its texts live as long as it does.
#[derive(Debug)]
pub struct CExplanation {
    reason: CString,
    layer: CString,
    meaning: CString,
    usual_fix: CString,
    refused: Option<CDenial>,
}

/// The refusal that was asked about.
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
        let refused = explanation.refusal.map(|refused| CDenial {
            time: c_text(&refused.time),
            server: c_text(&refused.server),
            rule: refused.rule.as_deref().map(c_text),
            inputs: refused.inputs.iter().map(|(name, value)| (c_text(name), c_text(value))).collect(),
            fix: c_text(&refused.fix),
        });
        Self {
            reason: c_text(&explanation.reason),
            layer: c_text(&explanation.layer),
            meaning: c_text(&explanation.meaning),
            usual_fix: c_text(&explanation.usual_fix),
            refused,
        }
    }
}

/// Explains the id of a reason, such as `tools.not_listed`, or of a refusal that a workload or a `mcpm proxy` has on
/// record.
///
/// Records are found through the environment variables of the process, as by the command line. On success
/// `explanation` gets what `mcpm_explanation_free` frees.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explain(
    id: *const c_char,
    explanation: *mut *mut CExplanation,
    error: *mut *mut CError,
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

/// Explains the id of a reason, or of one of the last refusals of a proxy.
///
/// On success `explanation` gets what `mcpm_explanation_free` frees.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_proxy_explain(
    proxy: *const CProxy,
    id: *const c_char,
    explanation: *mut *mut CExplanation,
    error: *mut *mut CError,
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

/// Returns the id of the reason. Null returns null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_reason(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { handle::as_ref(explanation) }.map(|explanation| &explanation.reason))
}

/// Returns the layer that refuses for it. Null returns null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_layer(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { handle::as_ref(explanation) }.map(|explanation| &explanation.layer))
}

/// Returns what the reason means. Null returns null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_meaning(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { handle::as_ref(explanation) }.map(|explanation| &explanation.meaning))
}

/// Returns what usually helps. Null returns null.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_usual_fix(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { handle::as_ref(explanation) }.map(|explanation| &explanation.usual_fix))
}

/// Returns the smallest change that would have let it pass; null when it was a reason that was asked about.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_fix(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { refused(explanation) }.map(|refused| &refused.fix))
}

/// Returns the rule that was gone by; null where the layer has one alone, or a reason was asked about.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_rule(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { refused(explanation) }.and_then(|refused| refused.rule.as_ref()))
}

/// Returns the server that it was about; null when it was a reason that was asked about.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_server(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { refused(explanation) }.map(|refused| &refused.server))
}

/// Returns when it was refused (RFC 3339); null when it was a reason that was asked about.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcpm_explanation_time(explanation: *const CExplanation) -> *const c_char {
    // SAFETY: the conventions in the header.
    text_or_null(unsafe { refused(explanation) }.map(|refused| &refused.time))
}

/// Reads one of the things that the layer looked at, without secrets: they are counted from 0.
///
/// Returns false, and writes nothing, behind the last one. `name` and `value` live as long as the explanation.
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
pub unsafe extern "C" fn mcpm_explanation_free(explanation: *mut CExplanation) {
    // SAFETY: the conventions in the header.
    unsafe { handle::free(explanation) }
}

/// The refusal of an explanation.
///
/// # Safety
/// That of [`handle::see`].
unsafe fn refused<'a>(explanation: *const CExplanation) -> Option<&'a CDenial> {
    // SAFETY: the caller's promise.
    unsafe { handle::as_ref(explanation) }.and_then(|explanation| explanation.refused.as_ref())
}

fn text_or_null(text: Option<&CString>) -> *const c_char {
    text.map_or(ptr::null(), |text| text.as_ptr())
}
