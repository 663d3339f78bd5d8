# Two stages: pip and its caches stay behind in the first one.
FROM python:3.13-slim AS build
WORKDIR /src
COPY pyproject.toml README.md LICENSE ./
COPY protocol_schemas protocol_schemas
COPY shareproxy shareproxy
RUN python -m venv /opt/shareproxy && /opt/shareproxy/bin/pip install --no-cache-dir .

FROM python:3.13-slim
RUN useradd --system --uid 10001 --no-create-home shareproxy
COPY --from=build /opt/shareproxy /opt/shareproxy
ENV PATH=/opt/shareproxy/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    SHAREPROXY_LISTEN=0.0.0.0:19092 \
    SHAREPROXY_HTTP=0.0.0.0:9464 \
    SHAREPROXY_LOG_FORMAT=json
USER shareproxy
EXPOSE 19092 19100-19163 9464
# /readyz is 503 until a broker answers; python is what this image has in place of curl
HEALTHCHECK --interval=5s --timeout=10s --start-period=20s --retries=6 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:9464/readyz', timeout=5)"]
ENTRYPOINT ["shareproxy"]
CMD ["serve"]
