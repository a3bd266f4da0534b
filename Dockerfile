# Learners of a cluster: docker build -t agents . See docs/guides/several-learners.md.
FROM python:3.12-slim-bookworm

RUN apt-get update \
    && apt-get install --yes --no-install-recommends libosmesa6 \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /agents
COPY pyproject.toml setup.py batch_agents.py README.md LICENSE ./
COPY configs configs
COPY agents agents
RUN pip install --no-cache-dir . \
    && useradd --create-home --uid 1000 agents
USER agents
WORKDIR /home/agents
ENV MUJOCO_GL=osmesa
ENTRYPOINT ["agents"]
CMD ["--help"]
