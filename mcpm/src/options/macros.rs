//! Defines the macros that generate the options from the option table.
//!
//! `options!` processes the option table, `choice!` generates an enum of keywords, and `text_form!` serializes a type
//! in its text form.

/// Distributes the table's sections to the two commands, and generates an option set for each and a view of their
/// common options. A common section may have another title for the proxy, after `|`, and all options of a section may
/// need a Cargo feature.
macro_rules! options {
    ($(
        section $title:literal $(| $proxy_title:literal)? for $commands:tt $(needs $feature:ident)? { $($rows:tt)* }
    )*) => {
        options! { @split [] [] [] $( { $title [$($proxy_title)?] $commands { [$($feature)?] $($rows)* } } )* }
    };
    (@split [$($run:tt)*] $proxy:tt $shared:tt { $title:literal [] (run) $rows:tt } $($rest:tt)*) => {
        options! { @split [$($run)* $title false $rows] $proxy $shared $($rest)* }
    };
    (@split $run:tt [$($proxy:tt)*] $shared:tt { $title:literal [] (proxy) $rows:tt } $($rest:tt)*) => {
        options! { @split $run [$($proxy)* $title false $rows] $shared $($rest)* }
    };
    (@split $run:tt $proxy:tt $shared:tt { $title:literal [] $commands:tt $rows:tt } $($rest:tt)*) => {
        options! { @split $run $proxy $shared { $title [$title] $commands $rows } $($rest)* }
    };
    (@split $run:tt $proxy:tt $shared:tt { $title:literal [$other:literal] (run, proxy) $rows:tt } $($rest:tt)*) => {
        options! { @both $run $proxy $shared $title $other false $rows $($rest)* }
    };
    (@split
        $run:tt $proxy:tt $shared:tt { $title:literal [$other:literal] (run, proxy as addition) $rows:tt } $($rest:tt)*
    ) => {
        options! { @both $run $proxy $shared $title $other true $rows $($rest)* }
    };
    (@both
        [$($run:tt)*] [$($proxy:tt)*] [$($shared:tt)*]
        $title:literal $other:literal $addition:literal $rows:tt $($rest:tt)*
    ) => {
        options! {
            @split [$($run)* $title false $rows] [$($proxy)* $other $addition $rows] [$($shared)* $rows] $($rest)*
        }
    };
    (@split [$($run:tt)*] [$($proxy:tt)*] [$($shared:tt)*]) => {
        options! { @set WorkloadOptions (crate::workload::WorkloadBuilder) "run" $($run)* }
        options! { @set ProxyOptions (crate::proxy::ProxyBuilder) "proxy" $($proxy)* }
        options! { @view SharedOptions $($shared)* }
    };
    (@view $view:ident $( { $feature:tt $(
        $(#[doc = $help:literal])+
        $name:ident : $slot:ident<$value:ty> $(= $default:literal)?
        $( [ $($settings:tt)* ] )? ;
    )* } )*) => {
        /// The options that a workload and a standalone proxy have in common.
        #[derive(Debug, Clone)]
        pub(crate) struct $view {
            $($( $(#[doc = $help])+ pub(crate) $name: $slot<$value>, )*)*
        }

        impl From<&WorkloadOptions> for $view {
            fn from(options: &WorkloadOptions) -> Self {
                Self { $($( $name: options.$name.clone(), )*)* }
            }
        }

        impl From<&ProxyOptions> for $view {
            fn from(options: &ProxyOptions) -> Self {
                Self { $($( $name: options.$name.clone(), )*)* }
            }
        }
    };
    (@set $options:ident ($builder:path) $command:literal $( $title:literal $addition:literal { $feature:tt $(
        $(#[doc = $help:literal])+
        $name:ident : $slot:ident<$value:ty> $(= $default:literal)?
        $( [ $($key:ident : $setting:expr),+ $(,)? ] )? ;
    )* } )*) => {
        #[doc = concat!("The options of `mcpm ", $command, "`: one field per option, empty if not set.")]
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct $options {
            $($(
                $(#[doc = $help])+
                $(#[doc = concat!("\n\nDefault: `", $default, "`.")])?
                #[serde(
                    with = "crate::options::json",
                    skip_serializing_if = "crate::options::json::is_left_out"
                )]
                pub $name: $slot<$value>,
            )*)*
        }

        impl crate::options::OptionSet for $options {
            const COMMAND: &'static str = $command;
            const SPECS: &'static [crate::options::OptionSpec] = &[ $($(
                crate::options::OptionSpec {
                    $($($key: $setting,)+)?
                    ..crate::options::OptionSpec::new::<$value>(
                        stringify!($name),
                        $title,
                        concat!($($help, "\n"),+),
                        stringify!($value),
                        options!(@arity $slot),
                        options!(@default $($default)?),
                    )
                }.of_section($addition, options!(@feature $feature)),
            )*)* ];

            fn slot(&self, name: &str) -> Option<&dyn crate::options::ErasedSlot> {
                match name {
                    $($( stringify!($name) => Some(&self.$name), )*)*
                    _ => None,
                }
            }

            fn slot_mut(&mut self, name: &str) -> Option<&mut dyn crate::options::ErasedSlot> {
                match name {
                    $($( stringify!($name) => Some(&mut self.$name), )*)*
                    _ => None,
                }
            }

            fn or(self, lower: Self) -> Self {
                Self { $($( $name: crate::options::Slot::or_lower(self.$name, lower.$name), )*)* }
            }
        }

        impl $builder {
            $($(
                $(#[doc = $help])+
                $(#[doc = concat!("\n\nDefault: `", $default, "`.")])?
                #[must_use]
                pub fn $name(mut self, value: impl Into<$value>) -> Self {
                    crate::options::Slot::put(&mut self.options.$name, value.into());
                    self
                }
            )*)*
        }
    };
    (@feature []) => { None };
    (@feature [$feature:ident]) => { Some(crate::Feature::$feature) };
    (@arity Option) => { crate::options::Arity::One };
    (@arity Vec) => { crate::options::Arity::Many };
    (@arity List) => { crate::options::Arity::List };
    (@default) => { None };
    (@default $text:literal) => { Some($text) };
}

/// Generates an option type that is one of several keywords: the enum, its keywords, parsing, printing and JSON.
macro_rules! choice {
    ($(
        $(#[doc = $about:literal])+
        $name:ident { $(
            $(#[doc = $help:literal])+
            $variant:ident = $word:literal,
        )+ }
    )+) => {$(
        $(#[doc = $about])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $(#[doc = $help])+ $variant, )+
        }

        impl $name {
            /// All values, in the order of the help text.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];
            /// The keyword of each value with its help text, in the same order.
            pub const WORDS: &'static [crate::options::Word] = &[
                $( crate::options::Word { text: $word, doc: concat!($($help, "\n"),+) }, )+
            ];

            /// Returns the keyword.
            pub const fn as_str(self) -> &'static str {
                match self { $( Self::$variant => $word, )+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl std::str::FromStr for $name {
            type Err = crate::Error;

            fn from_str(text: &str) -> crate::Result<Self> {
                match text {
                    $( $word => Ok(Self::$variant), )+
                    _ => Err(crate::options::value::invalid_value(crate::options::value::expected(Self::WORDS))),
                }
            }
        }

        text_form!($name => crate::options::ValueKind::Choice($name::WORDS));
    )+};
}

/// Implements `OptionValue` and JSON serialization for a type that can be parsed and printed.
macro_rules! text_form {
    ($name:ident => $kind:expr) => {
        impl crate::options::OptionValue for $name {
            const KIND: crate::options::ValueKind = $kind;

            fn parse(text: &str) -> Result<Self, String> {
                text.parse().map_err(|error: crate::Error| error.message().to_owned())
            }

            fn text(&self) -> Option<String> {
                Some(self.to_string())
            }

            fn check(&self) -> Result<(), String> {
                // A value that was constructed in code may have no text form.
                match self.to_string().parse::<Self>() {
                    Ok(same) if same == *self => Ok(()),
                    Ok(_) => Err("a part of the value cannot be written in the text form".to_owned()),
                    Err(error) => Err(error.message().to_owned()),
                }
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = <std::borrow::Cow<'de, str> as serde::Deserialize>::deserialize(deserializer)?;
                crate::options::OptionValue::parse(&text).map_err(serde::de::Error::custom)
            }
        }
    };
}
