"""Requests, configurations and replies of the JetStream API as frozen values; the order of the fields is the wire's.

stream.py, consumer.py: configurations and what info tells; requests.py: bodies of requests. Not here:
any rule about which values go together (stream_rules.py, consumer_rules.py).
"""
