"""Tests the package from this folder. The library must be installed:

    LD_LIBRARY_PATH=PREFIX/lib python3 packages/python/test.py
"""

import os
import shutil
import subprocess
import sys
import tempfile
import unittest

PACKAGE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "creel")
SCRIPT = f"#!{sys.executable}\nfrom creel.__main__ import main\nmain()\n"


def write(path, text, mode=0o755):
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(path, mode)


class Installed(unittest.TestCase):
    """A copy of the package, and a console script on PATH as pip writes it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.site = os.path.join(folder.name, "site")
        self.bin = os.path.join(folder.name, "bin")
        self.tool = os.path.join(self.site, "creel", "creel")
        os.mkdir(self.bin)
        python_only = shutil.ignore_patterns("__pycache__", "creel")
        shutil.copytree(PACKAGE, os.path.join(self.site, "creel"), ignore=python_only)
        write(os.path.join(self.bin, "creel"), SCRIPT)

    def run_python(self, *words, **variables):
        # The sixty seconds end a script that executes itself for ever.
        path = self.bin + os.pathsep + os.environ["PATH"]
        env = {**os.environ, "PATH": path, "PYTHONPATH": self.site, **variables}
        # `python -m` imports from the current folder first, and ours may be packages/python.
        return subprocess.run(
            [sys.executable, *words],
            env=env,
            cwd=self.bin,
            capture_output=True,
            text=True,
            timeout=60,
        )

    def console_script(self, *arguments):
        return self.run_python(os.path.join(self.bin, "creel"), *arguments)

    def test_the_tool_gets_the_arguments(self):
        write(self.tool, '#!/bin/sh\necho "$*"\n')
        self.assertEqual(self.console_script("run", "-j2").stdout, "run -j2\n")
        self.assertEqual(self.run_python("-m", "creel").stdout, "topo\n")

    def test_without_a_tool_the_number_is_printed(self):
        for done in [self.console_script(), self.run_python("-m", "creel")]:
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("workers, bound by", done.stdout)

    def test_without_a_tool_arguments_are_an_error(self):
        for done in [self.console_script("topo"), self.run_python("-m", "creel", "topo")]:
            self.assertEqual(done.returncode, 1)
            self.assertIn("creel: this installation has no tool", done.stderr)

    def test_a_tool_that_cannot_run_is_an_error_without_a_traceback(self):
        write(self.tool, "#!/bin/sh\n", 0o644)
        done = self.run_python("-m", "creel")
        self.assertEqual(done.returncode, 1)
        self.assertIn(f"creel: cannot run {self.tool}: Permission denied", done.stderr)
        self.assertNotIn("Traceback", done.stderr)

    def test_a_variable_of_an_earlier_call_is_not_attributed_to_the_user(self):
        code = "import creel; creel.apply(1); print([c.note for c in creel.apply(1)])"
        done = self.run_python("-c", code)
        self.assertIn("it was set already", done.stdout)
        self.assertNotIn("you have", done.stdout)

    def test_a_variable_for_child_interpreters_says_so(self):
        code = "import creel; print(*creel.apply(1), sep='\\n')"
        done = self.run_python("-c", code)
        self.assertRegex(done.stdout, r"PYTHON_CPU_COUNT: unset -> 1 \(for child interpreters only")

    @unittest.skipIf(sys.version_info < (3, 13), "Python reads it since 3.13")
    def test_the_cpu_count_of_the_interpreter_does_not_count(self):
        count = "import os; print(os.cpu_count())"
        code = f"""
import creel, os, subprocess, sys
print(os.cpu_count(), creel.workers())
creel.apply(1)
sys.stdout.flush()
subprocess.run([sys.executable, "-c", {count!r}], check=True)
"""
        workers = self.run_python("-c", "import creel; print(creel.workers())").stdout
        # The option does not reach child interpreters, and `apply` keeps a variable that is set.
        done = self.run_python("-X", "cpu_count=64", "-c", code)
        self.assertEqual(done.stdout, f"64 {workers}1\n")
        done = self.run_python("-c", code, PYTHON_CPU_COUNT="64")
        self.assertEqual(done.stdout, f"64 {workers}64\n")

    def test_arguments_of_a_wrong_type_say_what_is_expected(self):
        cases = [
            ("apply(1.5)", "expects a whole number of workers, not 1.5"),
            ("apply('2')", "expects a whole number of workers, not '2'"),
            ("set_mask(None)", "expects a CPU list such as '0-3,8', not None"),
            ("set_mask(3)", "expects a CPU list such as '0-3,8', not 3"),
        ]
        for call, message in cases:
            with self.subTest(call):
                done = self.run_python("-c", f"import creel; creel.{call}")
                self.assertIn("TypeError: creel.", done.stderr)
                self.assertIn(message, done.stderr)


if __name__ == "__main__":
    unittest.main()
