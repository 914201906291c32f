// Starts a workload with the given image and name, and exits while it runs or starts: the exit stops the server. In
// another mode, it calls `shutdown` twice before the exit.
import Foundation
import Mcpm

let (image, name, until) = (CommandLine.arguments[1], CommandLine.arguments[2], CommandLine.arguments[3])
let events = AsyncStream<WorkloadEvent>.makeStream()
let start = Task {
    try await Workload.start(image, name: name, inProcessOnly: true, onEvent: { events.continuation.yield($0) })
}
let awaited = until == "starting" ? "starting" : "ready"
for await event in events.stream where "\(event)".hasPrefix(awaited) { break }
// A reference until the end, so that only the exit or the shutdown ends the workload.
let workload = until == "starting" ? nil : try await start.value
if until == "shutdown" {
    try await shutdown()
    try await shutdown()
}
print(workload.map { "\($0.status.phase)" } ?? "starting")
exit(0)
