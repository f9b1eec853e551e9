"""What has a shell ask `headwater __complete` for candidates; and where each shell finds it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from headwater.core.errors import Code, TerminalError, UsageError

SCRIPTS: Mapping[str, str] = {
    "bash": """\
_headwater_complete() {
    local found line
    COMPREPLY=()
    found=$(headwater __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    if [ "$found" = ":files" ]; then
        compopt -o default 2>/dev/null
        return
    fi
    while IFS= read -r line; do
        if [ -n "$line" ]; then COMPREPLY+=("${line%%$'\\t'*}"); fi
    done <<< "$found"
}
complete -F _headwater_complete headwater
""",
    "zsh": """\
#compdef headwater
_headwater() {
    local -a found lines
    local line
    lines=("${(@f)$(headwater __complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    if [[ "${lines[1]}" == ":files" ]]; then
        _files
        return
    fi
    for line in $lines; do
        if [[ -n "$line" ]]; then found+=("${${line%%$'\\t'*}//:/\\\\:}:${line#*$'\\t'}"); fi
    done
    _describe headwater found
}
(( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
compdef _headwater headwater
""",
    "fish": """\
function __headwater_complete
    set -l words (commandline --current-process --tokenize --cut-at-cursor)[2..-1]
    set -l token (commandline --current-token)
    set -l found (headwater __complete $words "$token" 2>/dev/null)
    if test "$found" = ":files"
        __fish_complete_path "$token"
    else
        printf '%s\\n' $found
    end
end
complete --command headwater --no-files --arguments '(__headwater_complete)'
""",
}
"""By the shell's name."""


def shell_of(given: str | None) -> str:
    """The shell to complete in: the one that is given, or the user's own."""
    shell = given or Path(os.environ.get("SHELL", "")).name
    if shell not in SCRIPTS:
        raise UsageError(Code.USAGE, f"say for which shell: {', '.join(SCRIPTS)}")
    return shell


def install(shell: str) -> list[Path]:
    """Put the script where the shell finds it, in the user's own files; doing it again changes nothing. What was
    written."""
    try:
        if shell == "fish":
            return [_written(_configuration() / "fish/completions/headwater.fish", SCRIPTS[shell])]
        script = _written(_data() / f"headwater/completion.{shell}", SCRIPTS[shell])
        settings = (
            Path(os.environ.get("ZDOTDIR") or Path.home()) / ".zshrc" if shell == "zsh" else Path.home() / ".bashrc"
        )
        line = f"source '{script}'"
        known = settings.read_text(encoding="utf-8") if settings.exists() else ""
        if line in known.splitlines():
            return [script]
        begin = "" if not known or known.endswith("\n") else "\n"
        with settings.open("a", encoding="utf-8") as file:
            file.write(f"{begin}{line}\n")
        return [script, settings]
    except OSError as error:
        raise TerminalError(
            Code.STORAGE_FAILED, f"the completion can't be written: {error.filename}: {error.strerror}"
        ) from error


def _written(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def _data() -> Path:
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share")


def _configuration() -> Path:
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config")
