"""Streams, consumers and buckets that the configuration declares: read, compared with what is there, brought about.

    configuration --read()--> Declared --plan()--> steps, each with what it would lose --Declarer.bring_about()--> the
                                       JetStream API, as any client would ask it

A configuration that declares nothing loads none of it. Not here: what a stream may be, and making one
(leafd/jetstream).
"""
