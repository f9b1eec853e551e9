"""Java's names, each looked up once.

py4j asks the JVM for every part of `jvm.org.apache…` at every use, and the JVM looks for a class of that name, in all
packages that PySpark imports and all jars of the class path, before it knows that it is a package.
"""

from __future__ import annotations

from typing import Any

from py4j.java_gateway import JavaClass, JavaPackage, JVMView

ROOTS = frozenset({"com", "io", "java", "javax", "org", "scala"})


class JavaNames(JVMView):  # type: ignore[misc]  # py4j has no types
    """What `jvm` stands for, with a memory. What is no class now may be imported later, and is not remembered."""

    def __init__(self, plain: Any) -> None:
        super().__init__(plain._gateway_client, plain._jvm_name, plain._id)

    def __getattr__(self, name: str) -> Any:
        if name in ROOTS:
            self.__dict__[name] = member = Package(name, self._gateway_client, self._id)
            return member
        member = super().__getattr__(name)
        if isinstance(member, JavaClass):
            self.__dict__[name] = member
        return member


class Package(JavaPackage):  # type: ignore[misc]
    """A package that remembers its classes and inner packages."""

    def __getattr__(self, name: str) -> Any:
        member = super().__getattr__(name)
        if type(member) is JavaPackage and name.islower():
            member = Package(member._fqn, member._gateway_client, member._jvm_id)
        if isinstance(member, (JavaClass, Package)):
            self.__dict__[name] = member
        return member
