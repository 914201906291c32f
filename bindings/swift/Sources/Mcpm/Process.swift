// Functions for the whole process.
import Dispatch
import Foundation
import McpmGenerated

/// Stops all workloads and proxies of this process, and mcpm's threads. This also happens at the exit of the process,
/// so a program needs to call this function only to see the errors.
public func shutdown() async throws(McpmError) {
    let result: Result<Void, any Error> = await withCheckedContinuation { continuation in
        // `shutdown` blocks, and the threads of tasks must not block.
        DispatchQueue.global().async {
            continuation.resume(returning: Result { try McpmGenerated.shutdown() })
        }
    }
    do {
        try result.get()
    } catch {
        throw McpmError(error)
    }
}

/// Explains a reason, such as `tools.not_listed`, or a recorded denial of a workload or of `mcpm proxy`, by its id.
public func explain(_ id: String) throws(McpmError) -> Explanation {
    do {
        return try McpmGenerated.explain(id: id)
    } catch {
        throw McpmError(error)
    }
}

/// The version of mcpm.
public var version: String {
    McpmGenerated.version()
}

/// Registers a handler that stops all workloads at the exit of the process; reading this value once is enough. Without
/// it, containers would stay behind.
let exitHook: Void = {
    atexit {
        // Runs on another thread, because the exiting thread has lost its thread-local values, which mcpm needs.
        let done = DispatchSemaphore(value: 0)
        DispatchQueue.global().async {
            try? McpmGenerated.shutdown()
            done.signal()
        }
        done.wait()
    }
}()
