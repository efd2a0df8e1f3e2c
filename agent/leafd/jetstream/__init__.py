"""The JetStream API: what a request means, whether it is allowed, what the plane is told, what the reply says.

Messages do not pass through here: publish, deliver, ack, pull and direct get are the plane's (native/). Entry:
service.py.
"""
