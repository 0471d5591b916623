// The worker of the page "Try it": Python with sbformat, which examines the files that the page passes to it.
//
// in   {base, digests}       first: the address of this folder, and the SHA-384 of each file that may be loaded
//      {id, path, files: [{names: ["folder", "agent.zip"], data: ArrayBuffer}]}
//      path is the file or the folder to examine; names are ours: letters, digits, dots, hyphens and underscores
//      {id, path, agent, statistics}      then, of the same files: another agent of the folder, or its actions with or
//                                         without statistics, by the arguments of summary.py
// out  {kind: "ready"}
//      {kind: "scan" | "contents" | "actions", id, text}      text is the JSON of summary.py
//      {kind: "done", id}
//      {kind: "failed", id, reason}                           after it the worker is of no more use
//
// The page makes it from a blob, because its Content-Security-Policy applies to no other worker: one from an address has
// the policy of its own response, and a site of static files sends none. `fetch` is replaced, too, by one that checks
// digests and loads nothing else. One thing is not checked: that a script of Pyodide is still the same when it is
// imported, right after its digest was: `import` in a worker takes no digest.
const PACKAGES = "https://cdn.jsdelivr.net/pyodide/"; // numpy alone; pyodide-lock.json has its SHA-256
const FOLDER = "/dropped";

/** Replace `fetch` by one that loads files below an address with their digests, and packages with theirs. */
function restrict(base, digests) {
  const load = globalThis.fetch.bind(globalThis);
  globalThis.fetch = async (resource, options = {}) => {
    const address = new URL(resource, base).href;
    const name = address.slice(base.length);
    if (address.startsWith(base) && Object.hasOwn(digests, name))
      return load(address, { ...options, integrity: digests[name] });
    if (address.startsWith(PACKAGES) && options.integrity) return load(address, { ...options, credentials: "omit" });
    throw new TypeError(`the page does not load ${address}`);
  };
}

/** Load Python and sbformat; return both. */
async function start({ base, digests }) {
  restrict(base, digests);
  await Promise.all(["pyodide/pyodide.mjs", "pyodide/pyodide.asm.mjs"].map((name) => fetch(name)));
  const { loadPyodide, version } = await import(`${base}pyodide/pyodide.mjs`);
  const [python, archive] = await Promise.all([
    loadPyodide({ packageBaseUrl: `${PACKAGES}v${version}/full/` }),
    fetch("sbformat.zip").then((response) => response.arrayBuffer()),
  ]);
  python.unpackArchive(archive, "zip", { extractDir: "/sbformat" });
  python.runPython("import sys; sys.path.insert(0, '/sbformat')");
  return { python, summary: python.pyimport("summary") };
}

let numpy = null;
/** Load numpy; return whether it is there. */
function loadNumpy(python) {
  const quiet = { messageCallback() {}, errorCallback() {} };
  numpy ??= python
    .loadPackage("numpy", quiet)
    .then(() => Boolean(python.pyimport("numpy")))
    .catch(() => false);
  return numpy;
}

/** Write the files below a folder in memory, without another copy of their bytes. */
function write({ FS }, folder, files) {
  for (const { names, data } of files) {
    const path = [FOLDER, folder, ...names].join("/");
    FS.mkdirTree(path.slice(0, path.lastIndexOf("/")));
    FS.writeFile(path, new Uint8Array(data), { canOwn: true });
  }
}

/** Call a function of summary.py; if its result needs numpy, load that and call it again. */
async function call(python, work, ...values) {
  const text = work(...values);
  return JSON.parse(text).numpy && (await loadNumpy(python)) ? work(...values) : text;
}

let judged = []; // the files of the last scan
let described = {}; // the contents that were shown last

/** Return whether each of these files and folders was judged, and is clean. */
function areClean(paths) {
  return paths.every((path) => {
    const found = judged.filter((file) => file.path === path || file.path.startsWith(`${path}/`));
    return found.length > 0 && found.every((file) => file.verdict === "clean");
  });
}

async function examine({ python, summary }, { id, path, files, agent = "", statistics }) {
  if (files) {
    summary.clear(FOLDER, String(id));
    write(python, String(id), files);
    const text = await call(python, summary.scan, path);
    judged = JSON.parse(text).files ?? [];
    postMessage({ kind: "scan", id, text });
  }
  if (statistics === undefined) {
    const text = await call(python, summary.describe, path, agent);
    described = JSON.parse(text);
    postMessage({ kind: "contents", id, text });
  }
  if (described.page && areClean(described.loaded)) {
    postMessage({ kind: "actions", id, text: await call(python, summary.act, path, agent, statistics) });
  } else if (described.has_policy) {
    postMessage({ kind: "actions", id, text: JSON.stringify({ is_withheld: true }) });
  }
  postMessage({ kind: "done", id });
}

function describe(error) {
  if (error.type === "MemoryError") return "it needs more memory than the page has";
  if (error instanceof RangeError) return "its values are nested too deeply for the page"; // the stack of WebAssembly
  return String(error.message).trim().split("\n").at(-1);
}

let started = null;
self.onmessage = async ({ data }) => {
  try {
    if (data.base) {
      started = start(data);
      await started;
      postMessage({ kind: "ready" });
    } else {
      await examine(await started, data);
    }
  } catch (error) {
    postMessage({ kind: "failed", id: data.id, reason: describe(error) });
  }
};
