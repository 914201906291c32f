//! Calls the C bindings as a C program does.

use std::{
    ffi::{CStr, CString, c_char, c_void},
    ptr,
    time::Duration,
};

use super::*;

#[derive(Debug)]
struct Failed {
    status: Status,
    message: Option<String>,
}

/// Takes the error of a call.
fn failed(status: Status, error: *mut CError) -> Failed {
    // SAFETY: the error comes from a call.
    unsafe {
        assert_eq!(mcpm_error_status(error), status);
        let message = mcpm_error_message(error);
        let message = (!message.is_null()).then(|| CStr::from_ptr(message).to_string_lossy().into_owned());
        mcpm_error_free(error);
        Failed { status, message }
    }
}

/// Starts a workload with invalid options.
fn refused(collect: impl FnOnce(*mut WorkloadBuilder)) -> (Status, String) {
    let builder = mcpm_workload_builder_new();
    collect(builder);
    let (mut workload, mut error) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the builder is owned and freed once.
    let status = unsafe {
        let status = mcpm_workload_start(builder, &raw mut workload, &raw mut error);
        mcpm_workload_builder_free(builder);
        status
    };
    assert!(workload.is_null(), "a result is written on success alone");
    (status, failed(status, error).message.unwrap_or_default())
}

fn set(builder: *mut WorkloadBuilder, name: &CStr, value: &CStr) {
    // SAFETY: all are alive.
    unsafe { mcpm_workload_builder_set(builder, name.as_ptr(), value.as_ptr()) }
}

#[test]
fn every_kind_of_option_is_collected() {
    let builder = mcpm_workload_builder_new();
    set(builder, c"server", c"image");
    set(builder, c"proxy-port", c"9090");
    // SAFETY: all are alive, and the builder is freed once.
    let options = unsafe {
        mcpm_workload_builder_label(builder, c"a=b".as_ptr());
        mcpm_workload_builder_foreground(builder, true);
        mcpm_workload_builder_target_port(builder, 80);
        mcpm_workload_builder_remote_auth_timeout(builder, 30_000);
        let (options, _) = builder::take(builder).unwrap();
        mcpm_workload_builder_free(builder);
        options
    };
    assert_eq!((options.server.as_deref(), options.proxy_port), (Some("image"), Some(9090)));
    assert_eq!((options.label.len(), options.foreground, options.target_port), (1, Some(true), Some(80)));
    assert_eq!(options.remote_auth_timeout, Some(Duration::from_secs(30)));
}

#[test]
fn the_first_invalid_value_is_reported() {
    let refused = refused(|builder| {
        set(builder, c"server", c"image");
        set(builder, c"transport", c"http");
        set(builder, c"proxy-port", c"many");
    });
    let message = "invalid value `http` for `transport`: expected `sse`, `streamable-http` or `stdio`";
    assert_eq!(refused, (Status::InvalidOption, message.to_owned()));
}

#[test]
fn numbers_are_checked_as_texts_are() {
    let refused = refused(|builder| {
        set(builder, c"server", c"image");
        // SAFETY: the builder is alive.
        unsafe { mcpm_workload_builder_otel_sampling_rate(builder, 2.0) }
    });
    let message = "invalid value `2` for `otel_sampling_rate`: expected a number from 0 to 1";
    assert_eq!(refused, (Status::InvalidOption, message.to_owned()));
}

#[test]
fn null_and_broken_text_are_refused() {
    let null = refused(|builder| {
        // SAFETY: null is allowed.
        unsafe { mcpm_workload_builder_name(builder, ptr::null()) }
    });
    assert_eq!(null, (Status::BadArgument, "`name` is null".to_owned()));
    let broken = CString::new([0xff]).unwrap();
    let broken = refused(|builder| set(builder, c"name", &broken));
    assert_eq!(broken, (Status::BadArgument, "`name` is not valid UTF-8".to_owned()));
}

#[test]
fn null_handles_do_no_harm() {
    let (mut phase, mut record) = (CPhase::Failed, ptr::null_mut());
    let none = ptr::null_mut();
    // SAFETY: null is allowed everywhere.
    unsafe {
        mcpm_workload_builder_name(ptr::null_mut(), c"n".as_ptr());
        mcpm_workload_builder_free(ptr::null_mut());
        mcpm_proxy_builder_free(ptr::null_mut());
        mcpm_workload_free(ptr::null_mut());
        mcpm_proxy_free(ptr::null_mut());
        mcpm_error_free(ptr::null_mut());
        mcpm_string_free(ptr::null_mut());
        mcpm_record_free(ptr::null_mut());
        mcpm_record_list_free(ptr::null_mut());
        mcpm_connection_free(ptr::null_mut());
        mcpm_operation_cancel(ptr::null());
        mcpm_operation_free(ptr::null_mut());
        assert_eq!(mcpm_record_list_length(ptr::null()), 0);
        for text in [
            mcpm_error_message(ptr::null()),
            mcpm_error_hint(ptr::null()),
            mcpm_error_context(ptr::null(), c"path".as_ptr()),
            mcpm_record_get(ptr::null(), c"name".as_ptr()),
            mcpm_record_json(ptr::null()),
            mcpm_workload_name(ptr::null()),
            mcpm_workload_url(ptr::null()),
            mcpm_proxy_name(ptr::null()),
            mcpm_proxy_url(ptr::null()),
        ] {
            assert_eq!(text, ptr::null::<c_char>());
        }
        for status in [
            mcpm_workload_status(ptr::null(), &raw mut phase, &raw mut record, none),
            mcpm_workload_stop(ptr::null_mut(), 1, none),
            mcpm_proxy_status(ptr::null(), &raw mut phase, none),
            mcpm_proxy_stop(ptr::null_mut(), none),
            mcpm_workload_wait(ptr::null(), ptr::null_mut(), none),
            mcpm_connection_send(ptr::null(), c"{}".as_ptr(), none),
            mcpm_connection_close(ptr::null(), none),
            mcpm_workloads_info(ptr::null(), &raw mut record, none),
        ] {
            assert_eq!(status, Status::BadArgument);
        }
        let (mut workload, mut proxy) = (ptr::null_mut(), ptr::null_mut());
        assert_eq!(mcpm_workload_start(ptr::null_mut(), &raw mut workload, none), Status::BadArgument);
        assert_eq!(mcpm_proxy_start(ptr::null_mut(), &raw mut proxy, none), Status::BadArgument);
    }
}

/// Returns a builder of a proxy without a server behind it.
fn proxy_builder() -> *mut ProxyBuilder {
    let builder = mcpm_proxy_builder_new();
    // SAFETY: all are alive.
    unsafe {
        mcpm_proxy_builder_server_name(builder, c"nothing".as_ptr());
        mcpm_proxy_builder_target_uri(builder, c"http://127.0.0.1:1/".as_ptr());
    }
    builder
}

/// Answers a question with its own text.
unsafe extern "C" fn repeat(_: *mut c_void, question: *const c_char, answer: *mut CPromptAnswer) {
    // SAFETY: both are valid during the call.
    unsafe { mcpm_prompt_answer_text(answer, question) }
}

#[test]
fn text_is_asked_like_a_secret_by_default() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let prompt = mcpm_user_prompt_new(ptr::null_mut(), None);
    let ask = || {
        // SAFETY: the prompt is alive.
        let adapted = unsafe { handle::as_ref(prompt) }.unwrap().adapt();
        runtime.block_on(async { adapted.ask_text("which").await }).unwrap()
    };
    assert_eq!(ask(), None);
    // SAFETY: the prompt is alive.
    unsafe { mcpm_user_prompt_ask_secret(prompt, Some(repeat)) };
    assert_eq!(ask().as_deref(), Some("which"));
    // SAFETY: the prompt is owned and freed once.
    unsafe { mcpm_user_prompt_free(prompt) };
}

/// Answers a question with a word.
unsafe extern "C" fn say(word: *mut c_void, _: *const c_char, answer: *mut CPromptAnswer) {
    // SAFETY: the word is a C string, and the answer is valid during the call.
    unsafe { mcpm_prompt_answer_text(answer, word.cast_const().cast()) }
}

/// Approves every question.
unsafe extern "C" fn allow(_: *mut c_void, _: *const c_char, answer: *mut CPromptAnswer) {
    // SAFETY: the answer is valid during the call.
    unsafe { mcpm_prompt_answer_approval(answer, true) }
}

#[test]
fn an_approval_is_asked_as_a_text_by_default() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (word, approve, allowed) in
        [(c"yes", None, true), (c"no", None, false), (c"no", Some(allow as _), true)]
    {
        let prompt = mcpm_user_prompt_new(word.as_ptr().cast_mut().cast(), None);
        // SAFETY: the prompt is alive, and freed once.
        unsafe {
            mcpm_user_prompt_ask_text(prompt, Some(say));
            mcpm_user_prompt_approve(prompt, approve);
            let adapted = handle::as_ref(prompt).unwrap().adapt();
            assert_eq!(runtime.block_on(async { adapted.approve("mount").await }).unwrap(), allowed);
            mcpm_user_prompt_free(prompt);
        }
    }
}

#[test]
fn a_builder_is_good_for_one_start() {
    let builder = proxy_builder();
    let (mut proxy, mut error, none) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    // SAFETY: all are owned and freed once.
    unsafe {
        let refused = mcpm_proxy_start(builder, ptr::null_mut(), &raw mut error);
        let refused = failed(refused, error);
        assert_eq!(
            (refused.status, refused.message.as_deref()),
            (Status::BadArgument, Some("`proxy` is null"))
        );
        // The failed call has not consumed the builder.
        assert_eq!(mcpm_proxy_start(builder, &raw mut proxy, none), Status::Ok);
        let mut other = ptr::null_mut();
        let refused = failed(mcpm_proxy_start(builder, &raw mut other, &raw mut error), error);
        assert_eq!((refused.status, other), (Status::BadArgument, ptr::null_mut()));
        let message = "`builder` was used before; create a new one";
        assert_eq!(refused.message.as_deref(), Some(message));
        mcpm_proxy_builder_free(builder);
        mcpm_proxy_free(proxy);
    }
}

#[test]
fn blocking_calls_are_rejected_inside_a_runtime() {
    let executor = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let builder = proxy_builder();
    let (mut proxy, none) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: all are owned and freed once.
    unsafe {
        executor.block_on(async {
            assert_eq!(mcpm_proxy_start(builder, &raw mut proxy, none), Status::NotHere);
            assert_eq!(mcpm_shutdown(none), Status::NotHere);
        });
        assert_eq!(mcpm_proxy_start(builder, &raw mut proxy, none), Status::Ok);
        executor.block_on(async { assert_eq!(mcpm_proxy_stop(proxy, none), Status::NotHere) });
        mcpm_proxy_free(proxy);
        mcpm_proxy_builder_free(builder);
    }
}

#[test]
fn a_panic_stops_at_the_boundary() {
    let mut error = ptr::null_mut();
    // SAFETY: the error comes from the call.
    unsafe {
        let status = handle::guard(&raw mut error, || panic!("broken"));
        assert_eq!(status, Status::Internal);
        let message = CStr::from_ptr(mcpm_error_message(error)).to_string_lossy().into_owned();
        assert_eq!(message, "a defect in mcpm: broken");
        mcpm_error_free(error);
    }
}
