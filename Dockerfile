# syntax=docker/dockerfile:1
FROM python:3.12-slim-bookworm AS build
WORKDIR /srv/stable-arena
COPY requirements.txt ./
RUN python -m venv /opt/venv \
    && /opt/venv/bin/pip install --no-cache-dir --disable-pip-version-check --require-hashes --requirement requirements.txt

FROM python:3.12-slim-bookworm
RUN useradd --system --uid 10001 --home-dir /nonexistent --shell /usr/sbin/nologin arena
WORKDIR /srv/stable-arena
COPY --from=build /opt/venv /opt/venv
COPY migrations ./migrations
COPY app ./app
RUN printf '#!/bin/sh\nexec /opt/venv/bin/python -m app.cli "$@"\n' > /usr/local/bin/stable-arena \
    && chmod 0755 /usr/local/bin/stable-arena \
    && /opt/venv/bin/python -m compileall -q app migrations
ENV PYTHONPATH=/srv/stable-arena PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 NUMBA_CACHE_DIR=/var/cache/stable-arena
RUN install --directory --owner=arena --group=arena /var/cache/stable-arena /backups
# the number of arena: Kubernetes does not know names when it checks that a container is not root's
USER 10001
# compile the numeric kernels now, not in the first refit; a container that cannot write here copies them to /tmp
RUN stable-arena compile
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
    CMD ["/opt/venv/bin/python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8000/healthz', timeout=2)"]
ENTRYPOINT ["stable-arena"]
CMD ["serve", "--host", "0.0.0.0", "--port", "8000"]
