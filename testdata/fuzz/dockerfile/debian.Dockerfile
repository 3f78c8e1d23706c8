# The same packages as pypi.Dockerfile from Debian, for where PyPI cannot be reached.
FROM python:3.13-slim
RUN apt-get update && apt-get install -y --no-install-recommends python3-numpy python3-pandas python3-matplotlib python3-scipy && rm -rf /var/lib/apt/lists/*
RUN useradd -m -u 1000 sandbox
