"""Fetches jars through Spark's own Ivy resolver, as a process: `python -m headwater.spark.connector_fetch`.

A JVM that only fetches must not become the one that the caller's session runs in. The request comes as JSON
on standard input, each outcome goes as a line of JSON to standard output, and what Ivy prints to the log.
Spark's resolver knows where Maven artifacts live, so that no repository is named here; a site's Ivy settings
replace it.
"""

from __future__ import annotations

import json
import re
import ssl
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from headwater.spark.jvm import launched

# Spark's second default repository: it has none of the locked jars, and where it is blocked it costs time.
LEFT_OUT = "spark-packages"

# What Ivy prints about a failure without saying why it failed.
NO_CAUSE = re.compile(r"^(==== .*|-- artifact .*|module not found: .*|[\w+.-]+:/\S*|/\S*|:.*|)$")


class Ivy:
    """Spark's Ivy in a short-lived JVM."""

    def __init__(self, folder: str, settings: str | None, log: BinaryIO) -> None:
        from pyspark import SparkConf

        conf = SparkConf(loadDefaults=False)
        conf.set("spark.driver.memory", "512m")
        conf.set("spark.driver.extraJavaOptions", "-XX:+UseSerialGC -XX:TieredStopAtLevel=1")  # it lives for seconds
        self._gateway: Any = launched(conf, log)
        self._jvm = self._gateway.jvm
        self._trust_what_the_machine_trusts(Path(folder) / "trusted.p12")
        self._ivy = self._jvm.org.apache.ivy.Ivy.newInstance(self._settings(folder, settings))

    def close(self) -> None:
        self._gateway.shutdown()
        self._gateway.proc.stdin.close()
        self._gateway.proc.wait()

    def _trust_what_the_machine_trusts(self, file: Path) -> None:
        """A Java from PyPI knows public authorities alone; the machine may be behind a proxy of its own."""
        system, security = self._jvm.java.lang.System, self._jvm.java.security
        bundle = _machine_certificates()
        if bundle is None or system.getProperty("javax.net.ssl.trustStore") is not None:
            return
        store = security.KeyStore.getInstance("PKCS12")
        store.load(None, None)
        factory = security.cert.CertificateFactory.getInstance("X.509")
        for number, certificate in enumerate(factory.generateCertificates(self._jvm.java.io.FileInputStream(bundle))):
            store.setCertificateEntry(str(number), certificate)
        password = self._gateway.new_array(self._jvm.char, 1)
        password[0] = "-"  # Java wants one, though nothing in here is secret
        store.store(self._jvm.java.io.FileOutputStream(str(file)), password)
        system.setProperty("javax.net.ssl.trustStore", str(file))
        system.setProperty("javax.net.ssl.trustStorePassword", "-")

    def _settings(self, folder: str, settings: str | None) -> Any:
        utils = self._jvm.org.apache.spark.deploy.SparkSubmitUtils
        option = self._jvm.scala.Option
        if settings is not None:
            return utils.loadIvySettings(settings, option.apply(None), option.apply(folder))
        built = utils.buildIvySettings(option.apply(None), option.apply(folder), True)
        resolvers = built.getDefaultResolver().getResolvers()
        for resolver in list(resolvers):
            if resolver.getName() == LEFT_OUT:
                resolvers.remove(resolver)
            elif resolver.getClass().getSimpleName() == "IBiblioResolver":
                # The lock names every jar there is to fetch: no need to read the poms and their parents.
                resolver.setUsepoms(False)
        return built

    def fetch(self, coordinates: str) -> Any:
        """Ivy's report on one artifact, `group:artifact:version[:classifier[:extension]]`, alone."""
        group, artifact, version, *classifier = coordinates.split(":")
        extension = classifier[1] if len(classifier) > 1 else "jar"
        core = self._jvm.org.apache.ivy.core
        revision = core.module.id.ModuleRevisionId
        caller = core.module.descriptor.DefaultModuleDescriptor.newDefaultInstance(
            revision.newInstance("headwater", "connectors", "1")
        )
        wanted = core.module.descriptor.DefaultDependencyDescriptor(
            caller, revision.newInstance(group, artifact, version), True, False, False
        )
        wanted.addDependencyConfiguration("default", "default")
        attributes = self._jvm.java.util.HashMap()
        if classifier:
            attributes.put("m:classifier", classifier[0])
        jar = core.module.descriptor.DefaultDependencyArtifactDescriptor(
            wanted, artifact, extension, extension, None, attributes
        )
        wanted.addDependencyArtifact("default", jar)
        caller.addDependency(wanted)
        options = core.resolve.ResolveOptions()
        options.setTransitive(False)
        options.setOutputReport(False)
        return self._ivy.resolve(caller, options)


def _machine_certificates() -> str | None:
    """$SSL_CERT_FILE or the system's own bundle, as OpenSSL finds it."""
    candidates = (ssl.get_default_verify_paths().cafile, "/etc/ssl/certs/ca-certificates.crt")
    return next((path for path in candidates if path and Path(path).is_file()), None)


def fetch_all(request: dict[str, Any]) -> Iterator[dict[str, str]]:
    """One outcome for each of the coordinates: {coordinates, file} or {coordinates, cause}."""
    from py4j.protocol import Py4JJavaError

    log_path = Path(request["log"])
    with log_path.open("ab") as log:
        ivy = Ivy(request["folder"], request["settings"], log)
        try:
            for coordinates in request["coordinates"]:
                start = log_path.stat().st_size
                try:
                    report = ivy.fetch(coordinates)
                except Py4JJavaError as error:
                    yield {"coordinates": coordinates, "cause": str(error.java_exception)}
                    continue
                files = [artifact.getLocalFile() for artifact in report.getAllArtifactsReports()]
                if report.hasError() or not files or files[0] is None:
                    yield {"coordinates": coordinates, "cause": _cause(log_path, start, report)}
                else:
                    yield {"coordinates": coordinates, "file": str(files[0])}
        finally:
            ivy.close()


def _cause(log_path: Path, start: int, report: Any) -> str:
    """Why it failed: Ivy tells its log only, and clears what it knew."""
    with log_path.open("rb") as log:
        log.seek(start)
        said = log.read().decode("utf-8", "replace")
    summary = said.partition(":: problems summary ::")[2]
    lines = [line.strip() for line in summary.splitlines()]
    causes = [line for line in lines if not NO_CAUSE.match(line)]
    # Errors come last and say most.
    return causes[-1] if causes else "; ".join(map(str, report.getAllProblemMessages()))


def main() -> None:
    for outcome in fetch_all(json.load(sys.stdin)):
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
