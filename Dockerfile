# sbformat as a container: https://sbformat.github.io/sbformat/how-to/scan-in-ci/#docker
#
#     docker build --tag sbformat .
#     docker run --rm --network none --volume "$PWD:/work:ro" sbformat scan models/

FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY schema schema
COPY sbformat sbformat
RUN python -m venv --without-pip /opt/sbformat
RUN python -m pip --python /opt/sbformat/bin/python install --no-cache-dir --disable-pip-version-check .

FROM python:3.13-slim
COPY --from=build /opt/sbformat /opt/sbformat
ENV PATH="/opt/sbformat/bin:$PATH" PYTHONDONTWRITEBYTECODE=1
WORKDIR /work
# The user "nobody": a number, so that Kubernetes can check that it is not root.
USER 65534:65534
ENTRYPOINT ["sbformat"]
CMD ["--help"]
