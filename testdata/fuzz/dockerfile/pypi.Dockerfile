FROM python:3.13-slim
RUN pip install --no-cache-dir numpy pandas matplotlib scipy
RUN useradd -m -u 1000 sandbox
