// swift-tools-version: 6.0
import PackageDescription

// On macOS the library is an XCFramework that `make-xcframework` makes; elsewhere pkg-config finds an installed one.
#if os(macOS)
let library = Target.binaryTarget(name: "mcpmFFI", path: "Mcpm.xcframework")
#else
let library = Target.systemLibrary(name: "mcpmFFI", pkgConfig: "mcpm")
#endif

// Packages with unsafe flags cannot be dependencies, so only the tests set this.
let strict = Context.environment["MCPM_SWIFT_WARNINGS_AS_ERRORS"] != nil
let settings: [SwiftSetting] = strict ? [.unsafeFlags(["-warnings-as-errors"])] : []

// Libraries and frameworks of macOS that the library uses; it is linked statically there.
let linker: [LinkerSetting] =
    ["Security", "CoreFoundation", "SystemConfiguration"].map { .linkedFramework($0, .when(platforms: [.macOS])) }
    + [.linkedLibrary("iconv", .when(platforms: [.macOS]))]

let package = Package(
    name: "mcpm",
    platforms: [.macOS(.v13)],
    products: [.library(name: "Mcpm", targets: ["Mcpm"])],
    targets: [
        library,
        // The generated file does not compile in the Swift 6 language mode: mozilla/uniffi-rs#2929.
        .target(
            name: "McpmGenerated", dependencies: ["mcpmFFI"], swiftSettings: [.swiftLanguageMode(.v5)],
            linkerSettings: linker),
        .target(name: "Mcpm", dependencies: ["McpmGenerated"], swiftSettings: settings),
        .executableTarget(
            name: "list-tools", dependencies: ["Mcpm"], path: "Examples/ListTools", swiftSettings: settings),
        .executableTarget(
            name: "exit-while-running", dependencies: ["Mcpm"], path: "Tests/ExitWhileRunning",
            swiftSettings: settings),
        .testTarget(name: "McpmTests", dependencies: ["Mcpm"], swiftSettings: settings),
    ],
    swiftLanguageModes: [.v6]
)
