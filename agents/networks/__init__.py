"""Networks: policies and value functions, made with Keras."""
