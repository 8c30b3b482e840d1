# An image that serves Frontdesk. Your managers come on top of it:
#
#     FROM frontdesk
#     COPY shop /desk/shop
#     ENV FRONTDESK_MANAGERS=shop.chat:managers

FROM python:3.11-slim AS build
WORKDIR /src
COPY requirements/uv.txt requirements/server.txt requirements/
RUN python -m venv /opt/uv \
 && /opt/uv/bin/pip install --no-cache-dir --require-hashes --only-binary :all: -r requirements/uv.txt \
 && python -m venv --without-pip /opt/frontdesk
ENV VIRTUAL_ENV=/opt/frontdesk
RUN /opt/uv/bin/uv pip sync --no-cache --require-hashes --compile-bytecode requirements/server.txt
COPY pyproject.toml README.md LICENSE ./
COPY alembic alembic
COPY schema schema
COPY providers providers
COPY planned planned
COPY app app
RUN /opt/uv/bin/uv pip install --no-cache --no-deps --no-build-isolation --compile-bytecode .

FROM python:3.11-slim
RUN useradd --create-home --home-dir /desk desk
COPY --from=build /opt/frontdesk /opt/frontdesk
ENV PATH=/opt/frontdesk/bin:$PATH
USER desk
WORKDIR /desk
EXPOSE 8000
HEALTHCHECK --start-period=20s CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health/ready', timeout=3)"]
CMD ["frontdesk", "serve", "--host", "0.0.0.0", "--workers", "2"]
