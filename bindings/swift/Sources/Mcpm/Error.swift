// uniffi gives the property; this makes `"\(error)"` and `print(error)` read it.
extension McpmError: CustomStringConvertible {}
