//! The C face, called as C calls it.

use std::{
    ffi::{CStr, CString, c_char},
    ptr,
};

use super::*;

struct Checked {
    status: Status,
    message: Option<String>,
}

fn checked(collect: impl FnOnce(*mut WorkloadBuilder)) -> Checked {
    let builder = mcpm_workload_builder_new();
    collect(builder);
    let mut error = ptr::null_mut();
    // SAFETY: the builder is ours and freed once, the error is what the call gave.
    unsafe {
        let status = mcpm_workload_builder_check(builder, &raw mut error);
        mcpm_workload_builder_free(builder);
        assert_eq!(mcpm_error_status(error), status);
        let message = mcpm_error_message(error);
        let message = (!message.is_null()).then(|| CStr::from_ptr(message).to_string_lossy().into_owned());
        mcpm_error_free(error);
        Checked { status, message }
    }
}

fn set(builder: *mut WorkloadBuilder, name: &CStr, value: &CStr) {
    // SAFETY: all are alive.
    unsafe { mcpm_workload_builder_set(builder, name.as_ptr(), value.as_ptr()) }
}

#[test]
fn good_options_are_told_as_such() {
    let checked = checked(|builder| {
        set(builder, c"server", c"image");
        set(builder, c"proxy-port", c"9090");
        // SAFETY: all are alive.
        unsafe {
            mcpm_workload_builder_label(builder, c"a=b".as_ptr());
            mcpm_workload_builder_foreground(builder, true);
            mcpm_workload_builder_target_port(builder, 80);
            mcpm_workload_builder_remote_auth_timeout(builder, 30_000);
        }
    });
    assert_eq!((checked.status, checked.message), (Status::Ok, None));
}

#[test]
fn the_first_refused_value_is_told() {
    let checked = checked(|builder| {
        set(builder, c"server", c"image");
        set(builder, c"transport", c"http");
        set(builder, c"proxy-port", c"many");
    });
    assert_eq!(checked.status, Status::InvalidOption);
    let message = "invalid value `http` for `--transport`: expected `sse`, `streamable-http` or `stdio`";
    assert_eq!(checked.message.as_deref(), Some(message));
}

#[test]
fn numbers_are_checked_as_texts_are() {
    let checked = checked(|builder| {
        set(builder, c"server", c"image");
        // SAFETY: the builder is alive.
        unsafe { mcpm_workload_builder_otel_sampling_rate(builder, 2.0) }
    });
    let message = "invalid value `2` for `--otel-sampling-rate`: expected a number from 0 to 1";
    assert_eq!((checked.status, checked.message.as_deref()), (Status::InvalidOption, Some(message)));
}

#[test]
fn null_and_broken_text_are_refused() {
    let null = checked(|builder| {
        // SAFETY: null is allowed.
        unsafe { mcpm_workload_builder_name(builder, ptr::null()) }
    });
    assert_eq!((null.status, null.message.as_deref()), (Status::BadArgument, Some("`name` is null")));
    let broken = CString::new([0xff]).unwrap_or_default();
    let broken = checked(|builder| set(builder, c"name", &broken));
    assert_eq!((broken.status, broken.message.as_deref()), (Status::BadArgument, Some("`name` is no UTF-8")));
}

#[test]
fn null_handles_do_no_harm() {
    // SAFETY: null is allowed everywhere.
    unsafe {
        mcpm_workload_builder_name(ptr::null_mut(), c"n".as_ptr());
        mcpm_workload_builder_free(ptr::null_mut());
        mcpm_error_free(ptr::null_mut());
        assert_eq!(mcpm_error_message(ptr::null()), ptr::null::<c_char>());
        assert_eq!(mcpm_proxy_builder_check(ptr::null(), ptr::null_mut()), Status::BadArgument);
    }
}

#[test]
fn a_panic_stops_at_the_boundary() {
    let mut error = ptr::null_mut();
    // SAFETY: the error is what the call gave.
    unsafe {
        let status = handle::guard(&raw mut error, || panic!("broken"));
        assert_eq!(status, Status::Internal);
        let message = CStr::from_ptr(mcpm_error_message(error)).to_string_lossy().into_owned();
        assert_eq!(message, "a defect in mcpm: broken");
        mcpm_error_free(error);
    }
}
