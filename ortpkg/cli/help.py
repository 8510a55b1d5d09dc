"""``ortpkg --help``: lists the commands by purpose, without loading any of them."""

from __future__ import annotations

import importlib
import shutil
from collections.abc import Mapping

from ortpkg.cli.rendering import Output
from ortpkg.cli.wrapping import wrapped

_LEAST_COLUMNS = 40
#: Summaries of commands by heading. The order is that of the help; a test compares them with the
#: existing commands.
GROUPS: dict[str, dict[str, str]] = {
    "Author": {
        "create": "Make a whole package from model files",
        "init": "Make an empty package",
        "add-variant": "Copy a model into a package",
        "remove-variant": "Remove a variant from a package",
        "edit": "Change a package's facts, and its variants' order and options",
        "samples": "Add samples to a package, or record what a model gives",
        "dedup": "Store weights that several variants have once",
        "slim": "Keep only the variants that suit a device or an EP",
        "merge": "Make one package of several",
        "convert": "Write a package in another generation of the format",
        "pack": "Write a package to one file",
        "unpack": "Unpack a packed package into a directory",
    },
    "Publish and install": {
        "push": "Publish a package in a registry",
        "login": "Test a registry's password and save it where Docker does",
        "logout": "Forget the password of a registry",
        "sign": "Vouch for a package with a key, or make one",
        "install": "Install the parts of packages that a machine needs",
        "pull": "Copy the parts of a package that a machine needs to a folder",
        "list": "List installed packages",
        "show": "Show an installed package: its source, what was chosen, why",
        "outdated": "List installed packages that have something newer",
        "upgrade": "Install newer packages, and variants that now suit better",
        "history": "Show what was installed under a name",
        "rollback": "Use an older installation again",
        "repair": "Fetch damaged files of installed packages again",
        "uninstall": "Remove packages and their history",
        "gc": "Remove from the store what nothing needs",
        "lock": "Pin the packages of a project to their digests",
        "sync": "Install what a project has pinned",
    },
    "Check": {
        "inspect": "Show what a package holds",
        "validate": "Find everything that is wrong or doubtful in a package",
        "explain": "Explain a rule of validate",
        "verify": "Re-hash every file of a package",
        "diff": "Show the differences of two packages",
        "migrate-check": "Say what each onnxruntime release would do with a package",
    },
    "Choose and run": {
        "select": "Choose the best variant for a machine, and say why",
        "run": "Run a package's samples, or your own inputs",
        "plan": "Show how a model would run: partitions, order, kernels, memory",
        "bench": "Measure every variant on everything here that can run it",
        "report": "Write one HTML page of all that is known about a package",
        "batch": "Run every row of files, on one machine or many",
        "serve": "Answer requests with packages, over HTTP and gRPC",
    },
    "Compile": {
        "compile": "Add variants that are compiled for an EP of this machine",
        "compile-models": "Compile ONNX files into context models that share weights",
        "cache": "Show, explain or clear what sessions compiled and kept",
    },
    "Machine": {
        "devices": "Show the machine's devices, and the EPs that can use them",
        "ep": "List plug-in EPs and what is missing; add one by its path",
        "doctor": "Find problems that keep models from running well here",
        "settings": "Show the settings that hold here, and where each comes from",
        "quarantine": "Show or lift the quarantine of variants that failed here",
    },
}
#: Commands that the short help describes; it only names the others.
COMMON = frozenset({
    "create", "add-variant", "edit", "samples",
    "push", "install", "list", "upgrade",
    "inspect", "validate", "verify",
    "select", "run", "bench", "report", "batch", "serve",
    "compile", "devices", "doctor",
})  # fmt: skip
#: Summary of each command.
SUMMARIES: dict[str, str] = {
    command: text for summaries in GROUPS.values() for command, text in summaries.items()
}
#: Examples of each command.
EXAMPLES: dict[str, tuple[str, ...]] = {
    "create": (
        "ortpkg create digits.ortpackage --cpu fp32.onnx --npu int8.onnx",
        "ortpkg create digits.ortpackage --variant openvino:npu=int8.onnx --component classifier",
    ),
    "add-variant": ("ortpkg add-variant digits.ortpackage npu.onnx --ep openvino --device npu",),
    "remove-variant": ("ortpkg remove-variant digits.ortpackage cpu-fp32",),
    "init": ("ortpkg init digits.ortpackage --name digits",),
    "edit": (
        "ortpkg edit digits.ortpackage --model-version 2.0 --dry-run",
        "ortpkg edit digits.ortpackage --order cpu-int8,cpu-fp32",
    ),
    "samples": (
        (
            "ortpkg samples add digits.ortpackage --name nine --input image=nine.npy --expected"
            " logits=nine_out.npy"
        ),
        "ortpkg samples record digits.ortpackage --name noise --random --seed 7",
    ),
    "dedup": (
        "ortpkg dedup digits.ortpackage --dry-run",
        "ortpkg dedup digits.ortpackage --externalize 64kB",
    ),
    "slim": ("ortpkg slim digits.ortpackage --device cpu,npu -o small.ortpackage",),
    "merge": ("ortpkg merge cpu.ortpackage npu.ortpackage -o both.ortpackage",),
    "pack": ("ortpkg pack digits.ortpackage -o digits.ortpkg",),
    "unpack": ("ortpkg unpack digits.ortpkg -o digits.ortpackage",),
    "push": (
        "ortpkg push digits.ortpackage oci://models.example/digits:2 --tag latest",
        "ortpkg push digits.ortpackage oci-layout:shared/models",
    ),
    "login": ("ortpkg login models.example --username ann --password-stdin",),
    "logout": ("ortpkg logout models.example",),
    "sign": (
        "ortpkg sign --new-key publisher.pem",
        "ortpkg sign digits.ortpackage --key publisher.pem",
        "ortpkg sign oci://models.example/digits:2 --key publisher.pem",
    ),
    "install": (
        "ortpkg install oci://models.example/digits:2",
        "ortpkg install oci-layout:shared/models --name digits --profile snapdragon-x-laptop",
    ),
    "pull": (
        "ortpkg pull oci://models.example/digits:2 -o digits.ortpackage",
        "ortpkg pull digits -o digits.ortpackage --all-variants",
    ),
    "list": ("ortpkg list --json",),
    "show": ("ortpkg show digits", "ortpkg show digits:2"),
    "outdated": ("ortpkg outdated digits",),
    "upgrade": ("ortpkg upgrade --dry-run", "ortpkg upgrade digits"),
    "history": ("ortpkg history digits",),
    "rollback": ("ortpkg rollback digits", "ortpkg rollback digits --to 3"),
    "repair": ("ortpkg repair digits",),
    "uninstall": ("ortpkg uninstall digits",),
    "gc": ("ortpkg gc --dry-run", "ortpkg gc --keep 1 --used-within 24h"),
    "lock": ("ortpkg lock --dry-run", "ortpkg lock --upgrade"),
    "sync": ("ortpkg sync --frozen --profile server",),
    "inspect": ("ortpkg inspect digits.ortpackage --tree", "ortpkg inspect model.onnx --json"),
    "diff": ("ortpkg diff digits.ortpackage newer.ortpkg",),
    "explain": ("ortpkg explain ORT204",),
    "migrate-check": ("ortpkg migrate-check digits.ortpackage --strict",),
    "convert": ("ortpkg convert digits.ortpackage --to component -o newer.ortpackage",),
    "validate": (
        "ortpkg validate digits.ortpackage --strict",
        "ortpkg validate digits.ortpackage --format sarif",
    ),
    "verify": (
        "ortpkg verify digits.ortpackage --repair-from backup.ortpkg",
        "ortpkg verify digits.ortpackage --signature --key publisher.pem.pub",
        "ortpkg verify oci://models.example/digits:2 --signature --key publisher.pem.pub",
    ),
    "select": (
        "ortpkg select digits.ortpackage --explain",
        "ortpkg select digits.ortpackage --device npu",
        "ortpkg select digits.ortpackage --max-size 50kB --where quantization=int8",
        "ortpkg select digits.ortpackage --profile rtx-workstation --profile this-machine",
    ),
    "run": (
        "ortpkg run digits.ortpackage",
        "ortpkg run digits.ortpackage --input image=scan.npy --output logits.npz --timeout 90s",
    ),
    "plan": (
        "ortpkg plan model.onnx --nodes --memory --dim batch=1",
        "ortpkg plan model.onnx --ep llvm --ir",
    ),
    "bench": ("ortpkg bench digits.ortpackage --duration 2s --memory-limit 1.5GiB",),
    "report": (
        "ortpkg report digits.ortpackage --open",
        "ortpkg report digits --profile snapdragon-x-laptop --profile plain-server -o digits.html",
        "ortpkg report digits.ortpackage --bench --overwrite",
    ),
    "batch": (
        "ortpkg batch digits.ortpackage --input rows.parquet --output out/",
        "ortpkg batch digits --input rows.csv --map image=a,b,c -o out/ --errors failed.jsonl",
        "ortpkg batch digits --input rows/ --output shared/out --ray head.example:6379 --resume",
    ),
    "serve": (
        "ortpkg serve digits.ortpackage",
        "ortpkg serve digits:2 digits:3 --port 0 --grpc-port 0 --json",
    ),
    "compile": ("ortpkg compile digits.ortpackage --ep openvino --device npu",),
    "compile-models": (
        "ortpkg compile-models encoder.onnx,decoder.onnx --ep openvino -o compiled",
        (
            'ortpkg compile-models a.onnx,b.onnx -e qnn -i "htp_arch|73" -C'
            ' "ep.context_node_name_prefix|left_"'
        ),
    ),
    "quarantine": ("ortpkg quarantine list", "ortpkg quarantine clear digits.ortpackage"),
    "cache": ("ortpkg cache why digits.ortpackage", "ortpkg cache clear --keep 2GiB"),
    "devices": ("ortpkg devices --facts", "ortpkg devices --export laptop.json"),
    "ep": (
        "ortpkg ep list",
        "ortpkg ep add /opt/acme/libonnxruntime_acme.so --name AcmeExecutionProvider",
        "ortpkg ep remove /opt/acme/libonnxruntime_acme.so",
    ),
    "doctor": ("ortpkg doctor --markdown",),
    "settings": ("ortpkg settings --json",),
}
_SHOWN_EXAMPLES = ("create", "validate", "select", "run", "devices")
_OPTIONS = {
    "-V, --version": "Print versions.",
    "-q, --quiet": "Print nothing but data and errors.",
    "--no-color": "No colours; NO_COLOR in the environment does the same.",
    "-h, --help": "This text; ortpkg COMMAND --help explains a command.",
    "--help-all": "Every command in a line, examples, exit codes.",
}


def print_help(
    commands: Mapping[str, str], exit_codes: Mapping[int, str], *, is_whole: bool
) -> None:
    """Print help for ``ortpkg``: ``commands`` by group, and options.

    The whole help has a line for each command, examples and exit codes. The short one describes
    common commands and names the others.
    """
    output = Output()
    output.line("Usage: ortpkg [OPTIONS] COMMAND [ARGUMENTS]...", style="bold")
    output.line()
    _print_wrapped(
        "Packages ONNX models, picks the variant that suits a machine, says why, and runs it.",
        output,
    )
    for heading, summaries in _grouped(commands).items():
        _print_list(heading, summaries if is_whole else _shortened(summaries), output)
    _print_list("Options", _OPTIONS, output)
    if not is_whole:
        return
    output.line()
    output.line("Examples", style="bold")
    for command in _SHOWN_EXAMPLES:
        output.line(f"  {EXAMPLES[command][0]}")
    _print_list("Exit codes", {str(int(code)): text for code, text in exit_codes.items()}, output)


def _shortened(summaries: Mapping[str, str]) -> dict[str, str]:
    """Return common commands with their summaries, and the names of the others in one entry."""
    others = ", ".join(name for name in summaries if name not in COMMON)
    common = {name: text for name, text in summaries.items() if name in COMMON}
    return {**common, **({"also": others} if others else {})}


def _print_list(heading: str, entries: Mapping[str, str], output: Output) -> None:
    output.line()
    output.line(heading, style="bold")
    margin = max(14, *map(len, entries))
    for name, text in entries.items():
        _print_wrapped(f"  {name:<{margin}}  {text}", output, hang=" " * (margin + 4))


def _print_wrapped(text: str, output: Output, *, hang: str = "") -> None:
    """Print ``text``, as wide as the terminal or COLUMNS, also into a pipe."""
    for line in wrapped(text, max(_LEAST_COLUMNS, shutil.get_terminal_size().columns), hang=hang):
        output.line(line)


def _grouped(commands: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Return the existing commands by group.

    A command without a group comes last, with the first sentence of its docstring.
    """
    present = {
        heading: {name: text for name, text in summaries.items() if name in commands}
        for heading, summaries in GROUPS.items()
    }
    others = {
        name: _first_sentence(module) for name, module in commands.items() if name not in SUMMARIES
    }
    return {**present, **({"Other": others} if others else {})}


def _first_sentence(module: str) -> str:
    text = importlib.import_module(module).command.__doc__ or ""
    return text.strip().splitlines()[0].rstrip(".")
