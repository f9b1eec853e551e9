"""The project: from `headwater.yml` or Python to frozen definitions, checked."""
