"""What the host calls: hands a site to `rule.examine` and an answer back, whatever happens in between."""

import rule
from componentize_py_types import Err
from rule_sdk import Decline, Fault, Rewrite
from rule_sdk.views import Site
from wit_world import exports
from wit_world.imports import edits

# Made while the component is built, so that a mistake here ends the build.
MANIFEST = rule.MANIFEST.raw()


class Rule(exports.Rule):
    def describe(self):
        return MANIFEST

    def examine(self, site):
        try:
            answer = rule.examine(Site(site))
            if not isinstance(answer, Rewrite):
                raise Fault("`examine` gave no rewrite back; it ends with `return patch.finish(…)`, or declines")
            return edits.Verdict_Rewrite(answer.raw)
        except Decline as reason:
            return edits.Verdict_Decline(edits.Reason(reason.code, reason.message))
        except Exception as problem:
            raise Err(told(problem)) from None


def told(problem: Exception) -> str:
    """What was raised, with the line of the rule that it came from."""
    # The module `traceback` would read the sources, and there are no files.
    place, step = "", problem.__traceback__
    while step is not None:
        if step.tb_frame.f_globals.get("__name__") == "rule":
            place = f"rule.py:{step.tb_lineno}: "
        step = step.tb_next
    kind = "" if isinstance(problem, Fault) else f"{type(problem).__name__}: "
    return f"{place}{kind}{problem}"
