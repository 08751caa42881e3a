//! The values of an element's properties.

use gst::glib;
use gst::glib::value::FromValue;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use crate::fifo::Leaky;
use crate::tcpclientsrc::Framing;

/// The values of an element's properties. A property that was not set has the default value of its
/// [`glib::ParamSpec`].
pub(crate) struct Settings {
    specs: &'static [glib::ParamSpec],
    values: Mutex<HashMap<&'static str, glib::SendValue>>,
}

impl Settings {
    pub(crate) fn new(specs: &'static [glib::ParamSpec]) -> Self {
        let values = Mutex::default();
        Self { specs, values }
    }

    /// Sets the property of `spec`.
    pub(crate) fn set(&self, spec: &glib::ParamSpec, value: &glib::Value) {
        let value = send(value).expect("values of this type can be sent between threads");
        let mut values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        values.insert(self.spec(spec.name()).name(), value);
    }

    /// Returns the value of the property `name`.
    pub(crate) fn value(&self, name: &str) -> glib::Value {
        let values = self.values.lock().unwrap_or_else(PoisonError::into_inner);
        match values.get(name) {
            Some(value) => (**value).clone(),
            None => self.spec(name).default_value().clone(),
        }
    }

    /// Returns the value of the property `name`.
    ///
    /// # Panics
    ///
    /// Panics if the element has no such property, or if the property has another type.
    pub(crate) fn get<T: for<'a> FromValue<'a> + 'static>(&self, name: &str) -> T {
        self.value(name)
            .get_owned()
            .expect("the property has this type")
    }

    /// Returns the text of the property `name`, which is empty if it is not set.
    pub(crate) fn string(&self, name: &str) -> String {
        self.get::<Option<String>>(name).unwrap_or_default()
    }

    fn spec(&self, name: &str) -> &'static glib::ParamSpec {
        let spec = self.specs.iter().find(|spec| spec.name() == name);
        spec.unwrap_or_else(|| panic!("the element has no property {name}"))
    }
}

/// Returns a copy of the value that can be sent between threads, if its type allows this.
fn send(value: &glib::Value) -> Option<glib::SendValue> {
    macro_rules! try_types {
        ($value:ident, $($type:ty),*) => {
            $(let $value = match $value.try_into_send_value::<$type>() {
                Ok(value) => return Some(value),
                Err(value) => value,
            };)*
        };
    }
    let value = value.clone();
    try_types!(
        value,
        String,
        bool,
        i32,
        u32,
        i64,
        u64,
        f64,
        gst::Caps,
        Leaky,
        Framing
    );
    drop(value);
    None
}
