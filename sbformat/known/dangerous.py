"""Names that are known to run, import, open, connect or unpickle, and why (SCANNING.md 14).

They only ever make a verdict worse: a name that is not listed is unknown, not harmless. So prefixes are allowed here,
while known names are exact pairs. The names of numpy 2.4, torch 2.13, gym 0.26, gymnasium 1.4, stable-baselines 2.10,
stable-baselines3, sb3-contrib and rl-zoo3 2.9 were found by searching their sources for functions that
evaluate, import, open, run and unpickle; the lists for older releases, the standard library and other packages are not
complete.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from sbformat.pkl.tree import Pair

ADDRESS: Final = re.compile(r"://|::|^[\\/]{2}")
"""In a path that code opens: an address with a scheme, a chain of them as fsspec opens it, or a UNC path."""

_MODULES: Final[tuple[tuple[str, str], ...]] = (
    # -- the standard library, by effect --------------------------------------------------------------
    ("runs commands and reaches files",
     ("_aix_support _bootsubprocess nt os os2 _osx_support platform posix _posixsubprocess pty _pyrepl subprocess "
      "_winapi")),
    ("runs commands, in Python 2", "commands popen2 posixfile"),
    ("runs the code it is given",
     ("bdb cgitb code codeop cProfile doctest gettext idlelib _interpreters _lsprof pdb profile pstats pydoc "
      "rlcompleter runpy _sitebuiltins test.autotest test.libregrtest test.support timeit trace turtle unittest "
      "_xxsubinterpreters")),
    ("imports the module that its argument names",
     ("antigravity compileall _distutils_hack _frozen_importlib _frozen_importlib_external _imp imp importlib "
      "modulefinder pkgutil py_compile pyclbr site sitecustomize sysconfig usercustomize zipapp zipimport")),
    ("imports the module that its argument names, in Python 2", "dl ihooks imputil"),
    ("installs packages or builds them", "distutils ensurepip lib2to3 pip pkg_resources setuptools venv wheel"),
    ("reaches the interpreter and every module", "faulthandler gc sys _testcapi _testinternalcapi tracemalloc"),
    ("opens connections",
     ("aifc asynchat asyncore cgi ftplib http imaplib mailcap nis nntplib poplib select selectors smtpd smtplib "
      "_socket socket socketserver _ssl ssl telnetlib urllib wsgiref xmlrpc")),
    ("opens connections, in Python 2",
     ("BaseHTTPServer CGIHTTPServer DocXMLRPCServer httplib SimpleHTTPServer SimpleXMLRPCServer SocketServer urllib2 "
      "xmlrpclib")),
    ("opens a browser or a window", "_curses curses Tkinter _tkinter tkinter webbrowser"),
    ("starts threads or processes, which call what they are given",
     "_asyncio asyncio concurrent _multiprocessing multiprocessing sched _thread thread threading"),
    ("calls into native code", "cffi _cffi_backend _ctypes ctypes msvcrt pyximport"),
    ("unpickles or unmarshals", "bsddb cPickle marshal _pickle pickle pickletools shelve"),
    ("opens files or changes them",
     ("anydbm dbhash _dbm dbm dumbdbm filecmp fileinput _gdbm gdbm glob linecache mailbox mmap msilib netrc _pyio "
      "shutil _sqlite3 sqlite3 tarfile tempfile whichdb zipfile")),
    ("changes the process or the machine",
     ("atexit crypt fcntl getpass grp ossaudiodev pwd readline resource signal spwd syslog termios tty _winreg "
      "winreg winsound")),
    ("is made to open files or connections, or to call what its configuration names",
     "logging.config logging.handlers"),
    # -- picklers -------------------------------------------------------------------------------------
    ("makes functions and classes, imports and unpickles", "cloudpickle dill"),
    ("unpickles",
     ("billiard execnet hickle joblib jsonpickle klepto loky multiprocess pandas.compat.pickle_compat "
      "pandas.io.pickle pathos pickle5 pickleshare ppft skops")),
    # -- numpy ----------------------------------------------------------------------------------------
    ("compiles or evaluates the text it is given, or runs commands",
     "numpy.compat numpy.conftest numpy.distutils numpy.f2py numpy.testing scipy.weave"),
    ("loads the library it is given", "numpy.ctypeslib"),
    ("opens files, and unpickles",
     "numpy.lib._datasource numpy.lib._format_impl numpy.lib._npyio_impl numpy.lib.format numpy.lib.npyio"),
    # -- torch ----------------------------------------------------------------------------------------
    ("compiles or evaluates what it is given",
     ("torch._custom_op torch._dynamo torch._export torch._functorch torch._guards torch._higher_order_ops "
      "torch._inductor torch._jit_internal torch._library torch.export torch.fx torch.jit torch.testing "
      "torch.utils._sympy torch.utils._traceback triton")),
    ("loads libraries, files or modules that its arguments name",
     ("torch._classes torch._lazy torch._native torch._ops torch._vendor torch.classes torch.hub torch.library "
      "torch.nn.attention._fa3 torch.nn.attention._fa4 torch.nn.utils._deprecation_utils torch.onnx torch.ops "
      "torch.package torch.utils._config_module torch.utils.model_zoo torchvision.datasets")),
    ("unpickles",
     ("torch._weights_only_unpickler torch.cuda._memory_viz torch.utils.data.datapipes torch.utils.model_dump "
      "torch.utils.show_pickle")),
    ("runs commands",
     ("torch._strobelight torch.backends.xeon torch.utils._get_clean_triton torch.utils._strobelight "
      "torch.utils.benchmark torch.utils.bottleneck torch.utils.collect_env torch.utils.cpp_extension "
      "torch.utils.hipify torch.utils.viz")),
    ("starts processes, connects them and unpickles", "torch.distributed torch.multiprocessing"),
    ("writes files", "tensorboard tensorboardX torch.autograd.profiler torch.profiler torch.utils.tensorboard"),
    # -- reinforcement learning -----------------------------------------------------------------------
    ("opens files, and unpickles", "stable_baselines.common.save_util stable_baselines3.common.save_util"),
    ("opens files",
     ("gym.monitoring gym.utils.play gym.utils.save_video gym.wrappers.monitor gym.wrappers.monitoring "
      "gym.wrappers.record_video gymnasium.utils.play gymnasium.utils.save_video gymnasium.wrappers.record_video "
      "gymnasium.wrappers.rendering gymnasium.wrappers.vector.rendering stable_baselines.bench "
      "stable_baselines.logger stable_baselines.results_plotter stable_baselines3.common.logger "
      "stable_baselines3.common.monitor stable_baselines3.common.results_plotter "
      "stable_baselines3.common.vec_env.vec_monitor stable_baselines3.common.vec_env.vec_video_recorder")),
    ("imports the module that its argument names, or makes the environment",
     ("gym.envs.registration gymnasium.envs.registration gymnasium.wrappers.array_conversion rl_zoo3.import_envs "
      "stable_baselines3.common.cmd_util stable_baselines3.common.env_util")),
    ("starts processes that call what they are given",
     ("gym.vector gymnasium.vector sb3_contrib.common.vec_env stable_baselines.common.vec_env.subproc_vec_env "
      "stable_baselines3.common.vec_env.subproc_vec_env")),
    ("runs commands, opens files or evaluates its configuration",
     ("rl_zoo3.benchmark rl_zoo3.cli rl_zoo3.enjoy rl_zoo3.exp_manager rl_zoo3.load_from_hub rl_zoo3.plots "
      "rl_zoo3.push_to_hub rl_zoo3.record_training rl_zoo3.record_video rl_zoo3.train")),
    ("reads the model file that its constructor or its state names", "gym.envs.mujoco gymnasium.envs.mujoco mujoco_py"),
    # -- other packages -------------------------------------------------------------------------------
    ("opens connections",
     ("aiohttp boto3 botocore fabric fsspec gradio httpx huggingface_hub huggingface_sb3 paramiko psycopg2 pycurl "
      "pymongo pymysql Pyro4 Pyro5 redis requests rpyc smart_open tornado twisted urllib3 wandb websocket websockets "
      "zmq")),
    ("runs commands", "docker git invoke mlflow pexpect plumbum psutil ptyprocess ray sh"),
    ("compiles or evaluates the text it is given",
     ("asteval Cython decorator ipykernel IPython jinja2 llvmlite mako nbconvert numba numexpr simpleeval "
      "sympy.parsing sympy.utilities")),
    ("makes or imports what its text names", "hydra omegaconf ruamel yaml"),
    ("opens files", "h5py imageio lmdb moviepy PIL.ImageMath PIL.ImageShow pyarrow scipy.io tables"),
)  # fmt: skip

MODULES: Final[dict[str, str]] = {module: why for why, modules in _MODULES for module in modules.split()}
"""Modules, and packages with all that is below them, and why their names are dangerous."""

_GADGETS: Final[tuple[tuple[str, str, str], ...]] = (
    # -- in any module, because others re-export them -------------------------------------------------
    ("", "runs the code it is given", "eval exec execfile exec_ reexec exec_command"),
    ("", "runs commands", "Popen call_subprocess check_output getoutput getstatusoutput popen system"),
    ("", "imports the module that its argument names",
     "__import__ _import_module find_class import_module load_module resolve_name"),
    ("", "reaches any attribute", "attrgetter delattr getattr methodcaller setattr"),
    ("", "makes functions from code", "CodeType FunctionType LambdaType MethodType"),
    ("", "holds every name of a module", "__builtins__ __dict__ __globals__ __loader__ __spec__"),
    ("", "unpickles",
     ("CloudPickleWrapper CloudpickleWrapper Unpickler _Unpickler _load_from_bytes json_to_data load_from_pkl "
      "load_from_zip_file load_pickle read_pickle unpickle")),
    ("", "starts processes that call what they are given", "AsyncVectorEnv SubprocVecEnv"),
    ("", "loads the library it is given", "CDLL PyDLL WinDLL LoadLibrary cdll dlopen load_library"),
    # -- the standard library -------------------------------------------------------------------------
    ("argparse", "opens the file it is given", "FileType"),
    ("ast", "compiles the text it is given", "parse"),
    ("builtins", "compiles or runs what it is given", "apply breakpoint compile help input raw_input reload"),
    ("builtins", "opens the file it is given", "file open"),
    ("builtins", "gives every name of a module", "dir globals locals vars"),
    ("builtins", "ends the process", "exit quit"),
    ("bz2", "opens the file it is given", "BZ2File open"),
    ("codecs", "opens the file it is given", "open"),
    ("codecs", "imports or registers a codec", "EncodedFile lookup register register_error getdecoder getencoder"),
    ("configparser", "opens the file it is given", "ConfigParser.read RawConfigParser.read"),
    ("copyreg", "makes an object of the class it is given", "_reconstructor __newobj__ __newobj_ex__"),
    ("copyreg", "changes what later pickles do", "add_extension constructor pickle remove_extension"),
    ("dataclasses", "compiles the text it is given", "_create_fn make_dataclass"),
    ("gzip", "opens the file it is given", "GzipFile open"),
    ("inspect", "evaluates the text it is given", "_main get_annotations getmembers getsource signature"),
    ("io", "opens the file it is given", "FileIO OpenWrapper open open_code"),
    ("logging", "opens the file it is given", "FileHandler basicConfig"),
    ("logging", "calls what it is given", "setLogRecordFactory setLoggerClass"),
    ("lzma", "opens the file it is given", "LZMAFile open"),
    ("os", "runs commands", "system"),
    ("string", "reaches any attribute", "Formatter.get_field Formatter.vformat"),
    ("tokenize", "opens the file it is given", "open"),
    ("types", "runs the code it is given", "coroutine new_class prepare_class"),
    ("typing", "evaluates the text it is given", "ForwardRef._evaluate _eval_type get_type_hints"),
    ("uuid", "runs commands", "_get_command_stdout _popen getnode uuid1"),
    ("warnings", "imports the module that its argument names", "_getcategory _processoptions _setoption"),
    ("xml", "opens the file or the address it is given", "ElementTree iterparse make_parser parse pulldom"),
    # -- numpy ----------------------------------------------------------------------------------------
    ("numpy", "opens the file it is given",
     ("DataSource fromfile fromregex genfromtxt loadtxt memmap open_memmap mafromtxt ndfromtxt recfromcsv recfromtxt "
      "save savetxt savez savez_compressed")),
    ("numpy", "unpickles", "NpzFile load loads read_array"),
    ("numpy", "imports the module that its argument names", "_ufunc_reconstruct add_newdoc lookfor source"),
    ("numpy", "evaluates the text it is given", "runstring rundocs safe_eval"),
    ("numpy", "changes the process", "set_printoptions set_string_function set_numeric_ops seterrcall"),
    # -- torch ----------------------------------------------------------------------------------------
    ("torch", "unpickles", "_legacy_load _load load load_url"),
    ("torch", "opens the file it is given",
     ("PyTorchFileReader PyTorchFileWriter from_file _open_file save _open_zipfile_reader _open_zipfile_writer _save "
      "_legacy_save")),
    ("torch", "changes what later files may hold", "add_safe_globals register_package"),
    ("torch", "imports the module that its argument names", "_import_dotted_name treespec_loads"),
    ("torch", "compiles what it is given",
     "GraphModule ScriptModule compile import_ir_module import_ir_module_from_buffer reduce_graph_module"),
    ("torch", "loads the library it is given", "CUDAPluggableAllocator XPUPluggableAllocator"),
    ("torch", "starts processes that call what they are given", "DataLoader"),
    ("torch.utils._pytree", "imports or calls what its argument names",
     "register_pytree_node tree_map_only tree_unflatten"),
    # -- reinforcement learning -----------------------------------------------------------------------
    ("gym", "imports the module that its argument names", "load make register spec"),
    ("gym", "calls the constructor with what the state holds", "EzPickle"),
    ("gymnasium", "imports the module that its argument names",
     "load_env_creator make make_vec register spec load_plugin_envs register_envs"),
    ("gymnasium", "calls the constructor with what the state holds", "EzPickle"),
    ("rl_zoo3", "evaluates or imports its argument",
     "StoreDict get_callback_list get_class_by_name get_saved_hyperparams get_wrapper_class create_test_env"),
    ("stable_baselines", "opens the file it is given", "Monitor configure"),
    ("stable_baselines3", "opens the file it is given", "Monitor configure configure_logger open_path save_to_pkl"),
    ("stable_baselines3", "reads the machine", "get_system_info"),
    ("stable_baselines", "imports the module that its argument names", "make_vec_env"),
    ("stable_baselines3", "imports the module that its argument names", "make_vec_env check_for_correct_spaces"),
    # -- other packages -------------------------------------------------------------------------------
    ("PIL", "opens the file it is given", "Image.open open"),
    ("attr", "compiles the text it is given", "_make_method make_class"),
    ("cv2", "opens the file it is given", "FileStorage VideoCapture VideoWriter dnn imread imwrite"),
    ("keras", "runs the code in what it is given", "Lambda deserialize_lambda enable_unsafe_deserialization func_load"),
    ("keras", "loads a model with its code", "load_model model_from_config model_from_json"),
    ("matplotlib", "opens the file it is given", "get_sample_data imread imsave rc_file savefig"),
    ("optuna", "opens storages", "create_study load_study"),
    ("pandas", "evaluates the text it is given", "DataFrame.eval DataFrame.query"),
    ("pandas", "opens the file or the address it is given",
     "HDFStore read_csv read_excel read_feather read_hdf read_html read_json read_parquet read_sql read_table"),
    ("polars", "opens the file or the address it is given", "read_csv read_database read_json read_parquet"),
    ("scipy", "opens the file it is given, or calls", "LowLevelCallable load_npz loadmat savemat"),
    ("six", "runs the code it is given", "exec_ moves"),
    ("sympy", "evaluates the text it is given", "S lambdify parse_expr sympify"),
    ("tensorflow", "runs the code in what it is given", "Lambda func_load numpy_function py_func py_function"),
    ("tensorflow", "loads or opens what its argument names",
     "gfile load_model load_op_library read_file saved_model model_from_json write_file"),
    ("transformers", "loads code from the place that its argument names", "from_pretrained pipeline"),
)  # fmt: skip

GADGETS: Final[dict[Pair, str]] = {(module, name): why for module, why, names in _GADGETS for name in names.split()}
"""Names in other modules and in all below them, and why they are dangerous; an empty module matches any. A function
that calls what it is given (``map``, ``functools.reduce``) is not one: what it is given has a finding of its own."""

_HARMLESS: Final[dict[str, str]] = {
    **dict.fromkeys(
        ("nt", "os", "posix"),
        "PathLike _Environ cpu_count fsdecode fsencode fspath getcwd getpid stat_result terminal_size times_result",
    ),
    "_thread": "RLock allocate_lock lock",
    "http": "HTTPMethod HTTPStatus",
    "signal": "Handlers Sigmasks Signals",
    "socket": "AddressFamily AddressInfo MsgFlag SocketKind gaierror herror timeout",
    "subprocess": "CalledProcessError TimeoutExpired",
    "threading": "Lock RLock",
    "urllib.parse": (
        "ParseResult ParseResultBytes SplitResult SplitResultBytes parse_qs parse_qsl quote quote_plus unquote "
        "unquote_plus urldefrag urlencode urljoin urlparse urlsplit urlunparse urlunsplit"
    ),
    "stable_baselines3.common.logger": "FormatUnsupportedError Figure HParam Image KVWriter Logger SeqWriter Video",
    "omegaconf.base": "ContainerMetadata Metadata",
    "omegaconf.dictconfig": "DictConfig",
    "omegaconf.listconfig": "ListConfig",
    "omegaconf.nodes": "AnyNode BooleanNode BytesNode EnumNode FloatNode IntegerNode PathNode StringNode",
    "pyarrow.lib": "_restore_array py_buffer type_for_alias",
    "ruamel.yaml.comments": "CommentedMap CommentedOrderedMap CommentedSeq CommentedSet",
    "ruamel.yaml.scalarbool": "ScalarBoolean",
    "ruamel.yaml.scalarfloat": "ScalarFloat",
    "ruamel.yaml.scalarint": "ScalarInt",
    "wandb.sdk.wandb_config": "Config",
}
HARMLESS: Final[frozenset[Pair]] = frozenset(
    (module, name) for module, names in _HARMLESS.items() for name in names.split()
)
"""Names in the modules above that only hold values, or compute something from their arguments."""

METHODS: Final[dict[str, str]] = {
    **dict.fromkeys(("apply_", "map_", "apply", "__call__", "callback", "register"), "calls what it is given"),
    **dict.fromkeys(("load", "loads", "learn", "set_parameters", "load_replay_buffer"), "reads a file, and unpickles"),
    **dict.fromkeys(
        (
            "chmod", "dump", "from_file", "hardlink_to", "mkdir", "open", "read_bytes", "read_text", "rename",
            "replace", "rmdir", "save", "symlink_to", "tofile", "touch", "unlink", "write_bytes", "write_text",
        ),
        "opens or changes a file",
    ),
    **dict.fromkeys(("run", "runcode", "runctx", "runsource", "query"), "runs the code it is given"),
}  # fmt: skip
"""Methods that a dotted name may end with, of whatever class of a library."""

ALIASES: Final = {
    "__builtin__": "builtins", "_bz2": "bz2", "_codecs": "codecs", "_functools": "functools", "_io": "io",
    "_lzma": "lzma", "_operator": "operator", "_weakref": "weakref", "copy_reg": "copyreg", "exceptions": "builtins",
}  # fmt: skip
"""Other names of modules: in Python 2, and of their part in C."""

MODULE_NAMES: Final = frozenset({
    "builtins", "cloudpickle", "ctypes", "dill", "importlib", "io", "joblib", "marshal", "nt", "os", "pickle", "posix",
    "pty", "runpy", "shutil", "socket", "subprocess", "sys", "urllib", "webbrowser",
})  # fmt: skip
"""Modules that others import: one of these as a name refers to the module itself."""

_LIBRARIES: Final = {module.partition(".")[0] for module in (*MODULES, *(above for above, _ in GADGETS), "pathlib")} - {
    "",
    "builtins",
}
"""Packages whose methods are known by their names; a user's class may call its own the same."""


def explain_danger(pair: Pair) -> str | None:
    """Return why a name is dangerous, as a clause whose subject is the name; None when it is not listed.

    :param pair: module and name, in Python 2 or 3; the name may be dotted, as in protocol 4
    """
    module, name = pair
    if pair in HARMLESS:
        return None
    first, *rest = name.split(".")
    if not rest:
        return _of_module(module) or _of_name(module, name)
    if any(part.startswith("__") and part.endswith("__") for part in (first, *rest)):
        return "reaches through attributes that hold every name"
    return _of_module(module) or _of_path(module, name, [first, *rest])


def _of_path(module: str, name: str, parts: list[str]) -> str | None:
    """Check each part of a dotted name, which may lead through the modules that a module imported."""
    found = _of_name(module, name)
    for index, part in enumerate(parts):
        below = ".".join(parts[index + 1 :])
        found = found or _of_name(module, part)
        if below:
            deeper = ".".join([module, *parts[: index + 1]])
            found = found or _of_module(part.lstrip("_")) or _of_module(deeper) or GADGETS.get((part, below))
    return found or (METHODS.get(parts[-1]) if module.partition(".")[0] in _LIBRARIES else None)


@lru_cache(maxsize=4096)
def _of_module(module: str) -> str | None:
    if module.endswith(".__main__"):
        return "runs a program when it is imported"
    return next((MODULES[above] for above in _upwards(module) if above in MODULES), None)


def _of_name(module: str, name: str) -> str | None:
    found = GADGETS.get(("", name)) or next(
        (GADGETS[above, name] for above in _upwards(module) if (above, name) in GADGETS), None
    )
    if found is None and name.lstrip("_") in MODULE_NAMES:
        return "is a module that runs, opens or imports"
    return found


def _upwards(module: str) -> Iterator[str]:
    """Yield a module and its parents, by the names that the tables use."""
    top, dot, below = module.partition(".")
    module = ALIASES.get(top, top) + dot + below
    while module:
        yield module
        module = module.rpartition(".")[0]
