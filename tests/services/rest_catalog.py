"""A real Iceberg REST catalog: the reference servlet of Iceberg's own tests, on Jetty, over a SQLite catalog."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway, launch_gateway

from headwater.spark import connectors
from headwater.spark.java import find_java

LOCK = Path(__file__).with_name("rest_catalog.lock.json")


@contextmanager
def rest_catalog(folder: Path) -> Iterator[str]:
    """The address of a catalog that lives in `folder`, on loopback and a free port; it ends with the block."""
    port, process = launch_gateway(
        classpath=_class_path(),
        javaopts=["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"],
        die_on_exit=True,
        java_path=str(find_java().home / "bin" / "java"),
        return_proc=True,
    )
    gateway = JavaGateway(gateway_parameters=GatewayParameters(port=port))
    try:
        server = _server(gateway, folder)
        server.start()
        try:
            yield f"http://127.0.0.1:{server.getURI().getPort()}"
        finally:
            server.stop()
    finally:
        gateway.shutdown()
        process.stdin.close()
        process.wait(timeout=30)


def _server(gateway: JavaGateway, folder: Path) -> Any:
    jvm: Any = gateway.jvm
    properties = jvm.java.util.HashMap()
    properties.put("uri", f"jdbc:sqlite:{folder}/rest.db")
    properties.put("warehouse", str(folder / "warehouse"))
    properties.put("jdbc.schema-version", "V1")
    properties.put("clients", "1")
    catalog = jvm.org.apache.iceberg.jdbc.JdbcCatalog()
    catalog.setConf(jvm.org.apache.hadoop.conf.Configuration())
    catalog.initialize("served", properties)
    rest, servlets = jvm.org.apache.iceberg.rest, jvm.org.eclipse.jetty.servlet
    context = servlets.ServletContextHandler(servlets.ServletContextHandler.NO_SESSIONS)
    context.setContextPath("/")
    servlet = rest.RESTCatalogServlet(rest.RESTCatalogAdapter(catalog))
    context.addServlet(servlets.ServletHolder(servlet), "/*")
    server = jvm.org.eclipse.jetty.server.Server(jvm.java.net.InetSocketAddress("127.0.0.1", 0))
    server.setHandler(context)
    return server


def _class_path() -> str:
    """The catalog's own jars first; Hadoop, Jackson and Avro are those that Spark brings."""
    served = connectors.ensure(["rest-catalog"], lock=connectors.load_lock(LOCK))
    database = connectors.ensure(["sqlite"])
    spark = Path(pyspark.__file__).parent / "jars" / "*"
    return ":".join(str(path) for path in (*served, *database, spark))
