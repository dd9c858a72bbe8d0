// How Swagger UI shows the document. Addresses are relative: a proxy may have put the host below a path of its own.
window.onload = () => {
  window.ui = SwaggerUIBundle({
    dom_id: "#swagger-ui",
    url: "../openapi.json",
    presets: [SwaggerUIBundle.presets.apis],
    layout: "BaseLayout",
    deepLinking: true,
    // Closed, but for what `open.js` opens.
    docExpansion: "none",
    defaultModelsExpandDepth: -1,
    displayRequestDuration: true,
    tryItOutEnabled: true,
    // Swagger's own service would be asked about the document otherwise.
    validatorUrl: "none",
  });
};
