# A server for exports, without torch:
#   docker build -f serving.Dockerfile -t brodmann-serving .
#   docker run --rm -p 127.0.0.1:8000:8000 -v "$PWD/runs/demo/onnx:/model:ro" brodmann-serving
# Add `-e BRODMANN_API_KEY` to pass a key on; without one, whoever reaches the port can ask.
FROM python:3.11-slim

ENV PIP_NO_CACHE_DIR=1 \
    PYTHONUNBUFFERED=1

WORKDIR /brodmann

# The declared dependencies bring torch; these are what serving an export needs (the extras `runtime`
# and `serve`, and the command line).
RUN pip install "onnxruntime>=1.22" "tokenizers>=0.22" "numpy>=2.0" \
    "fastapi>=0.115" "uvicorn>=0.30" "prometheus-client>=0.20" "typer>=0.15"

COPY pyproject.toml README.md LICENSE ./
COPY src src
RUN pip install --no-deps .

RUN useradd --create-home brodmann
USER brodmann

EXPOSE 8000
HEALTHCHECK --start-period=30s CMD \
    ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/ready', timeout=3)"]
CMD ["brodmann", "serve", "/model", "--host", "0.0.0.0"]
